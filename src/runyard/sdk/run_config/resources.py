"""Resources: what a run asks for on each node, and what a model asks for when it is served.

`Resources` applies to compute targets that allocate CPUs, memory and GPUs. `ResourceConfiguration` is stored with a
model at its registration.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from runyard.core.compute_options import RUN_OPTIONS, check_known, check_resources
from runyard.core.errors import InvalidArgument
from runyard.core.specs import ResourceSpec
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Resources(SealedConfig):
    """CPUs, memory and GPUs of each node, and what a queue is told. None: the target decides.

    Args:
        cpus: on Ray a fraction is fine.
        memory: bytes, or a text such as `16GB`.
        gpus: for each node.
        custom: Ray's resources by name; on Slurm `--gres` by name.
        partition, account, qos, constraint, extra: Slurm's, for this run; they win over the target's.

    Raises:
        TypeError: there is no such setting; the one that was probably meant is named.
    """

    def __init__(
        self,
        cpus: Optional[float] = None,
        memory: Union[int, str, None] = None,
        gpus: Optional[int] = None,
        custom: Optional[Mapping[str, float]] = None,
        partition: Optional[str] = None,
        account: Optional[str] = None,
        qos: Optional[str] = None,
        constraint: Optional[str] = None,
        extra: Optional[List[str]] = None,
        **unknown: Any,
    ) -> None:
        self.cpus = cpus
        self.memory = memory
        self.gpus = gpus
        self.custom: Dict[str, float] = dict(custom or {})
        self.partition = partition
        self.account = account
        self.qos = qos
        self.constraint = constraint
        self.extra: List[str] = list(extra or [])
        self._seal()
        for name in unknown:
            raise TypeError(self._unknown(name))


def plan_resources(resources: Resources) -> ResourceSpec:
    """Return what the run's spec says.

    Raises:
        InvalidArgument: an amount or a text that no cluster accepts.
    """
    engine = {name: getattr(resources, name) for name in RUN_OPTIONS if getattr(resources, name) not in (None, [])}
    found = ResourceSpec(resources.cpus, _memory(resources.memory), dict(resources.custom), engine)
    check_resources(found)
    return found


def as_resources(value: Any) -> Resources:
    """Return what was set as `run_config.resources`: an object, or a dict of its parameters."""
    if isinstance(value, Resources):
        return value
    if value is None or isinstance(value, Mapping):
        return Resources(**dict(value or {}))
    raise InvalidArgument(f"resources takes a Resources, found {type(value).__name__}.", hint="Resources(cpus=4)")


def read_resources(pairs: Mapping[str, str]) -> Resources:
    """Return what was typed as NAME=VALUE: `cpus=8`, `memory=16GB`, `partition=gpu`, `custom.fpga=1`.

    Raises:
        InvalidArgument: there is no such name; the one that was probably meant is named.
    """
    found: Dict[str, Any] = {}
    custom: Dict[str, float] = {}
    for name, text in pairs.items():
        if name.startswith("custom."):
            custom[name[len("custom.") :]] = _number(name, text)
            continue
        check_known(name, (*_TYPED, "custom.NAME"), "the resources of a run")
        found[name] = _TYPED[name](name, text)
    return Resources(custom=custom, **found)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{name} is {text[:40]!r}; it must be a number.") from None


def _whole(name: str, text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise InvalidArgument(f"{name} is {text[:40]!r}; it must be a whole number.")


def _text(name: str, text: str) -> str:
    return text


def _list(name: str, text: str) -> List[str]:
    return [text]


_TYPED: Dict[str, Callable[[str, str], Any]] = {
    "cpus": _number,
    "memory": _text,
    "gpus": _whole,
    "partition": _text,
    "account": _text,
    "qos": _text,
    "constraint": _text,
    "extra": _list,
}


def _memory(value: Union[int, str, None]) -> Optional[int]:
    if not isinstance(value, str):
        return value
    found = _AMOUNT.fullmatch(value.strip())
    if found is None:
        raise InvalidArgument(f"memory is {value[:40]!r}.", why="It is a number of bytes.", hint="memory='16GB'")
    return int(float(found[1]) * _UNITS[found[2].upper()])


@raises_azure_errors
class ResourceConfiguration(AzureClass):
    def __init__(
        self, cpu: Optional[float] = None, memory_in_gb: Optional[float] = None, gpu: Optional[int] = None
    ) -> None:
        """Raises UserErrorException: one of them is not a number above zero."""
        self.cpu = _positive("cpu", cpu)
        self.memory_in_gb = _positive("memory_in_gb", memory_in_gb)
        self.gpu = _positive("gpu", gpu)

    def serialize(self) -> Dict[str, Any]:
        return {"cpu": self.cpu, "memoryInGB": self.memory_in_gb, "gpu": self.gpu}


def _positive(name: str, value: Any) -> Any:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
        raise UserErrorException(f"{name} must be a number above zero, not {value!r}.")
    return value
