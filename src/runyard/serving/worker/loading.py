"""What a worker loads: an entry script of Azure's kind, a `Scorer`, or a model without code."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Callable, Optional

from runyard.serving.worker import swagger
from runyard.serving.worker.auto_batching import JoinedCall, find_join_fault
from runyard.serving.worker.calls import SchemaCall, ScoringCall, make_call
from runyard.serving.worker.script import Script, load_script
from runyard.serving.worker.worker import LoadedModel

MODEL_FOLDER = "AZUREML_MODEL_DIR"
SCORERS = {
    "sklearn": "runyard.serving.scorers.sklearn:SklearnModel",
    "onnx": "runyard.serving.scorers.onnx:OnnxModel",
    "tensorflow": "runyard.serving.scorers.tensorflow:TensorFlowModel",
    "mlflow": "runyard.serving.scorers.mlflow:MlflowModel",
}
_NO_CODE = "runyard.serving.scorers.no_code"


@dataclass(frozen=True)
class ModelSource:
    """Where the code of a revision is; `no_code` names a framework and stands for a script."""

    app_root: str
    entry: str = ""
    source_directory: str = ""
    no_code: str = ""
    batching_auto: bool = False


def import_script(source: ModelSource) -> Optional[Script]:
    """Import the entry script, without `init()`: several workers may share what it loaded. None without a script."""
    os.environ.update(AML_APP_ROOT=source.app_root, AZUREML_ENTRY_SCRIPT=source.entry)
    os.chdir(source.app_root)
    return None if source.no_code else load_script(source.app_root, source.entry, source.source_directory)


def load_model(source: ModelSource, script: Callable[[], Optional[Script]]) -> LoadedModel:
    """Import and start what a worker serves.

    Raises:
        ScriptFault: the script cannot be served as it is.
        BaseException: what the script raised.
    """
    loaded = script()
    if loaded is None:
        module, name = SCORERS[source.no_code].split(":")
        kind = getattr(import_module(module), name)
        folder = os.environ.get(MODEL_FOLDER, source.app_root)
        call, documents = import_module(_NO_CODE).load(kind, folder, os.environ)
        return LoadedModel(call, documents, source.no_code)
    call_of_script = make_call(loaded)  # before init(), which may take minutes
    loaded.init()
    if source.batching_auto:
        call_of_script = _joined(call_of_script)
    return LoadedModel(call_of_script, swagger.make_documents(loaded, source.app_root, os.environ))


def _joined(call: ScoringCall) -> ScoringCall:
    fault = find_join_fault(call) if isinstance(call, SchemaCall) else "run() has no NumpyParameterType"
    if fault or not isinstance(call, SchemaCall):
        print(f"runyard: batching=auto stays off: {fault}.", file=sys.stderr, flush=True)
        return call
    print("runyard: batching=auto is on: rows give the same answers alone and together.", file=sys.stderr, flush=True)
    return JoinedCall(call)
