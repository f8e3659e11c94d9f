"""NVML, NVIDIA's library about its GPUs, by ctypes. https://docs.nvidia.com/deploy/nvml-api/"""

from __future__ import annotations

from ctypes import CDLL, byref, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any, List, Optional, Tuple, Type, Union

from runyard.core.machine.gpus import Gpu

_LIBRARY = "libnvidia-ml.so.1"
_MEMORY_VERSION_2 = 40 | 2 << 24  # the struct's size and number, as nvml.h makes it
_Unsigned = Union[Type[c_uint], Type[c_ulonglong]]


class Nvml:
    """The library, initialised."""

    def __init__(self, loaded: Any) -> None:
        self._nvml = loaded

    def read(self) -> List[Gpu]:
        count = c_uint()
        if self._nvml.nvmlDeviceGetCount_v2(byref(count)) != 0:
            return []
        found = (self._device(index) for index in range(count.value))
        return [device for device in found if device is not None]

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _device(self, index: int) -> Optional[Gpu]:
        handle = c_void_p()
        if self._nvml.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(handle)) != 0:
            return None
        memory = self._memory(handle)
        rates = self._numbers("nvmlDeviceGetUtilizationRates", handle, c_uint, 2)  # of the GPU, of its memory
        return Gpu(
            index,
            uuid=self._text("nvmlDeviceGetUUID", handle),
            name=self._text("nvmlDeviceGetName", handle),
            memory_bytes=memory[0] if memory else None,
            memory_used_bytes=memory[1] if memory else None,
            utilization_percent=float(rates[0]) if rates else None,
        )

    def _memory(self, handle: c_void_p) -> Optional[Tuple[int, int]]:
        """Return (total, used); the newer call leaves out what the driver keeps for itself, as nvidia-smi does."""
        newer = self._numbers("nvmlDeviceGetMemoryInfo_v2", handle, c_ulonglong, 5, first=_MEMORY_VERSION_2)
        if newer is not None:
            return newer[1], newer[4]  # version, total, reserved, free, used
        older = self._numbers("nvmlDeviceGetMemoryInfo", handle, c_ulonglong, 3)
        return None if older is None else (older[0], older[2])  # total, free, used

    def _text(self, call: str, handle: c_void_p) -> str:
        buffer = create_string_buffer(96)
        failed = getattr(self._nvml, call)(handle, buffer, c_uint(len(buffer)))
        return "" if failed else buffer.value.decode("utf-8", "replace")

    def _numbers(
        self, call: str, handle: c_void_p, kind: _Unsigned, count: int, *, first: int = 0
    ) -> Optional[List[int]]:
        values = (kind * count)(first)
        asked = getattr(self._nvml, call, None)  # older drivers have not all of them
        return None if asked is None or asked(handle, values) else list(values)


def open_nvml() -> Optional[Nvml]:
    """Return the library; None where there is none, or no driver that answers it."""
    try:
        loaded = CDLL(_LIBRARY)
        return Nvml(loaded) if loaded.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None
