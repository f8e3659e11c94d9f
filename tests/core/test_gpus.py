"""The machine's GPUs, as a stand-in `nvidia-smi` tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.machine import gpus
from runyard.core.machine.gpus import Gpu, parse_answer

ANSWER = """\
1, GPU-bbbb, NVIDIA H200, 143771, 512, 37
0, GPU-aaaa, NVIDIA H200, 143771, 0, 0
2, GPU-cccc, Tesla K80, [N/A], [Not Supported], [N/A]
"""


def test_the_answer_is_read_in_the_order_of_the_indices() -> None:
    first, second, third = parse_answer(ANSWER)

    assert first == Gpu(0, "GPU-aaaa", "NVIDIA H200", 143771 << 20, 0, 0.0)
    assert (second.index, second.memory_used_bytes, second.utilization_percent) == (1, 512 << 20, 37.0)
    assert third == Gpu(2, "GPU-cccc", "Tesla K80")


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "NVIDIA-SMI has failed, because\n", "x, y, z, 1, 2, 3\n"]
)
def test_what_is_no_answer_means_no_gpus(text: str) -> None:
    assert parse_answer(text) == []


def test_a_machine_without_library_is_asked_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    stand_in(tmp_path, f'echo "$*" >> {asked}\necho "0, GPU-aaaa, Stand-in, 1000, 10, 5"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert gpus._ask_command() == [Gpu(0, "GPU-aaaa", "Stand-in", 1000 << 20, 10 << 20, 5.0)]
    assert asked.read_text().startswith("--query-gpu=index,uuid,name,memory.total,memory.used,utilization.gpu ")


@pytest.mark.parametrize("script", ["exit 9", "echo '0, GPU-a, Broken, 1, 1, 1'; exit 1"])
def test_a_command_that_fails_means_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    stand_in(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert gpus._ask_command() == []


def stand_in(folder: Path, script: str) -> None:
    command = folder / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
