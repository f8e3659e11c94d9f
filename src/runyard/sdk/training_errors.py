"""What estimators and sweeps refuse: Azure's TrainingException, with what, why and a hint."""

from __future__ import annotations

from runyard.core.errors import InvalidArgument
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import TrainingException


def training_error(what: str, *, why: str = "", hint: str = "") -> Exception:
    return azure_error(InvalidArgument(what, why=why, hint=hint), TrainingException)
