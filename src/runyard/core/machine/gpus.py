"""The NVIDIA GPUs of this machine: found through NVML, or through `nvidia-smi` where NVML is missing.

Indices are those of the PCI bus. CUDA uses the same order only when CUDA_DEVICE_ORDER says so.
"""

from __future__ import annotations

import os
from typing import Any, Callable, List, Optional

from runyard.core.lazy_dataclass import dataclass

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
NO_DEVICE = "-1"  # CUDA takes it for a device that is not there, and sees none

_COLUMNS = ("index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu")
_TIMEOUT_S = 20.0  # the driver may have to be woken first
_MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """One device, and how busy it was when it was asked; what the driver does not tell is None."""

    index: int
    uuid: str
    name: str
    memory_bytes: Optional[int] = None
    memory_used_bytes: Optional[int] = None
    utilization_percent: Optional[float] = None


def list_gpus() -> List[Gpu]:
    """Return this machine's GPUs in the order of their indices; none where no driver answers."""
    reader = _NvmlReader()
    try:
        return reader.read()
    finally:
        reader.close()


def read_gpu_usage() -> List[Gpu]:
    """The same at little cost each time: the library stays open, and a machine without GPUs is not asked twice."""
    global _kept
    if _kept is None or _kept.pid != os.getpid():  # the library is not made for a forked child
        _kept = _NvmlReader()
    return _kept.read()


class _NvmlReader:
    def __init__(self) -> None:
        from shutil import which  # these cost milliseconds, and most processes never ask

        from runyard.core.machine.nvml import open_nvml

        self.pid = os.getpid()
        self._library = open_nvml()
        self._is_there = self._library is not None or which("nvidia-smi") is not None

    def read(self) -> List[Gpu]:
        if not self._is_there:
            return []
        found = _ask_command() if self._library is None else self._library.read()
        self._is_there = bool(found)
        return found

    def close(self) -> None:
        if self._library is not None:
            self._library.close()


_kept: Optional[_NvmlReader] = None


def _ask_command() -> List[Gpu]:
    from shutil import which

    command = which("nvidia-smi")
    if command is None:
        return []
    import subprocess  # as slow to load as all else here together

    argv = [command, f"--query-gpu={','.join(_COLUMNS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_answer(answer.stdout.decode("utf-8", "replace")) if answer.returncode == 0 else []


def parse_answer(text: str) -> List[Gpu]:
    """Return what `nvidia-smi --query-gpu=… --format=csv,noheader,nounits` printed."""
    rows = ([cell.strip() for cell in line.split(",")] for line in text.splitlines())
    found = (_device_of(cells) for cells in rows if len(cells) == len(_COLUMNS))
    return sorted((device for device in found if device is not None), key=lambda device: device.index)


def _device_of(cells: List[str]) -> Optional[Gpu]:
    index = _number(cells[0], int)
    if index is None:
        return None
    total, used = _number(cells[3], int), _number(cells[4], int)
    return Gpu(
        index,
        uuid=cells[1],
        name=cells[2],
        memory_bytes=None if total is None else total * _MIB,
        memory_used_bytes=None if used is None else used * _MIB,
        utilization_percent=_number(cells[5], float),
    )


def _number(text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:  # `[N/A]`, `[Not Supported]`
        return None
