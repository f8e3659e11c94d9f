"""Hugging Face's Trainer: every value it reports, at its own global step."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional

from runyard.core.errors import MissingExtra
from runyard.native.border import say_once
from runyard.native.recording import config_to, log_to, target

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingExtra("`transformers` is not installed here.", hint="pip install transformers") from error

_OTHERS = ("azure_ml", "mlflow")  # they log to the same run


class HuggingFaceCallback(TrainerCallback):  # type: ignore[misc]  # without the library it is Any
    """`Trainer(…, args=TrainingArguments(report_to="none", …), callbacks=[HuggingFaceCallback()])`.

    Metrics keep the Trainer's names (`loss`, `eval_loss`, `learning_rate` …), and their step is `state.global_step`,
    also after `resume_from_checkpoint`. Training arguments that differ from their defaults become parameters of the
    run. Of several processes, the first logs.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        twice = [name for name in _OTHERS if name in (getattr(args, "report_to", None) or ())]
        if twice:
            say_once(
                f"the Trainer reports to {' and '.join(twice)} as well, so the run gets each value more than once. "
                'TrainingArguments(report_to="none") leaves it to HuggingFaceCallback.'
            )
        config_to(target(), _changed(args))

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Mapping[str, Any]] = None, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero and logs:
            log_to(target(), dict(logs), step=state.global_step)


def _changed(args: Any) -> Dict[str, object]:
    """Return the training arguments that were chosen, secrets as the library hides them."""
    shown = args.to_dict()
    found = {}
    for field in dataclasses.fields(args):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.name in shown and getattr(args, field.name) != default:
            found[field.name] = shown[field.name]
    return found
