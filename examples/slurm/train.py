"""A job that resumes: it keeps a checkpoint in ./outputs and continues from it when Slurm starts it again."""

import json
import os
import socket
from pathlib import Path

import runyard

os.makedirs("outputs", exist_ok=True)
checkpoint = Path("outputs/checkpoint.json")
state = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"epoch": 0, "loss": 1.0}
print("node", socket.gethostname(), "starts at epoch", state["epoch"])
for epoch in range(state["epoch"], 10):
    state = {"epoch": epoch + 1, "loss": state["loss"] / 2}
    runyard.log({"loss": state["loss"]}, step=epoch)
    Path("outputs/new.json").write_text(json.dumps(state))
    os.replace("outputs/new.json", checkpoint)  # the checkpoint is complete at every moment
print("loss", state["loss"])
