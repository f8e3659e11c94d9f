"""Ask the server at MLFLOW_TRACKING_URI everything, and write its answers to the file that is the argument."""

from __future__ import annotations

import sys

from asked import note_failure, write
from endpoints import endpoints
from models import files, logged_models, registry
from records import experiments, runs
from searches import searches

import mlflow

for part in (experiments, runs, searches, files, registry, endpoints):
    note_failure(part)
if int(mlflow.__version__.split(".")[0]) >= 3:
    note_failure(logged_models)
write(sys.argv[1])
