"""Trains until the sweep stops it: the loss falls to 0.1 and stays there."""

import argparse
import time

from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float)
x = parser.parse_args().x

run = Run.get_context()
step = 0
while True:
    step += 1
    run.log("loss", max(0.1, x / step))
    time.sleep(0.05)
