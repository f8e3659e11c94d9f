"""Common sizes of Azure's machines, which scripts look up before they choose one. None has an effect here."""

from __future__ import annotations

from typing import Any, Dict, Tuple

_SIZES: Tuple[Tuple[str, int, int, float, int], ...] = (
    ("Standard_D1_v2", 1, 0, 3.5, 51200),
    ("Standard_D2_v2", 2, 0, 7.0, 102400),
    ("Standard_D3_v2", 4, 0, 14.0, 204800),
    ("Standard_D4_v2", 8, 0, 28.0, 409600),
    ("Standard_DS2_v2", 2, 0, 7.0, 14336),
    ("Standard_DS3_v2", 4, 0, 14.0, 28672),
    ("Standard_DS12_v2", 4, 0, 28.0, 57344),
    ("Standard_F4s_v2", 4, 0, 8.0, 32768),
    ("Standard_NC6", 6, 1, 56.0, 389120),
    ("Standard_NC12", 12, 2, 112.0, 696320),
    ("Standard_NC24", 24, 4, 224.0, 1474560),
    ("Standard_NC6s_v3", 6, 1, 112.0, 344064),
    ("Standard_NC24s_v3", 24, 4, 448.0, 1376256),
    ("Standard_ND40rs_v2", 40, 8, 672.0, 3014656),
)
VM_SIZES: Tuple[Dict[str, Any], ...] = tuple(
    {"name": name, "vCPUs": cpus, "gpus": gpus, "memoryGB": memory, "maxResourceVolumeMB": disk}
    for name, cpus, gpus, memory, disk in _SIZES
)
