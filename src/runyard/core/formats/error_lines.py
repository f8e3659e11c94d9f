"""Which lines of a log report an error: the rule for the studio's jump to the first error, and for diagnosis.

A line is *sure* when a program does not write it in passing: a traceback, `SomethingError: …`, a crash, words of CUDA,
NCCL or MPI. `ERROR`, `FATAL`, `CRITICAL` and `error: …` are *perhaps*: they count where nothing sure is found.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

TRACEBACK = "Traceback (most recent call last):"
FATAL = re.compile(r"Fatal Python error: ")
GPU_MEMORY = re.compile(r"CUDA out of memory|CUDA error: out of memory|RESOURCE_EXHAUSTED: OOM|OOM when allocating")
ABORT = re.compile(r"terminate called|Fatal Python error|Aborted|what\(\):|MPI_ABORT|Segmentation fault", re.IGNORECASE)

# A line without any of these is no error: each is looked for by itself, which is ten times faster than a pattern.
HINTS = (
    b"rror",
    b"Traceback (most",
    b"xception",
    b"ERROR",
    b"out of memory",
    b"Segmentation fault",
    b"terminate called",
    b"MPI_",
    b"collective operation",
    b"noticed that process",
    b"FATAL",
    b"CRITICAL",
)
LONGEST = 2000  # of a longer line the beginning is judged

# A measured value is no message: `TestError: 0.25`. A whole number is one: `KeyError: 3`.
_NO_VALUE = r"(?!\s*[-+]?(?:\d*\.\d+|\d+%|nan|inf)(?:e[-+]?\d+)?\s*%?\s*(?:$|[\s,;|)\]]))"
_SURE = (
    ("traceback", re.compile(r"Traceback \(most recent call last\)")),
    (
        "crash",
        re.compile(r"Fatal Python error|Segmentation fault|Bus error\b|terminate called (?:after|without|recursively)"),
    ),
    ("memory", re.compile(r"CUDA out of memory|CUDA error: out of memory|hipErrorOutOfMemory|oom-kill|OOM-killed")),
    ("gpu", re.compile(r"\b(?:CUDA|cuDNN|CUBLAS|HIP|NCCL) (?:error|Error)\b|\bnccl[A-Z]\w*Error\b")),
    ("gpu", re.compile(r"[Cc]aught collective operation timeout")),
    ("mpi", re.compile(r"\bMPI_ABORT\b|\bMPI_ERR_[A-Z]|(?:mpirun|prterun|mpiexec) noticed that process")),
    ("exception", re.compile(rf"(?:^|[\s>:\]|])(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?::{_NO_VALUE}|$)")),
)
_PERHAPS = re.compile(rf"\b(?:ERROR|FATAL|CRITICAL)\b|\b[Ee]rror:{_NO_VALUE}|\bException:{_NO_VALUE}")


class Sign(NamedTuple):
    kind: str
    is_sure: bool


def find_sign(line: str) -> Optional[Sign]:
    """Return what a line (without colours) tells of an error."""
    text = line[:LONGEST].rstrip()
    for kind, pattern in _SURE:
        if pattern.search(text):
            return Sign(kind, True)
    return Sign("error", False) if _PERHAPS.search(text) else None
