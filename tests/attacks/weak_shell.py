"""A batch script that is put together without care: a text counts as an attack only when it bites here."""

from __future__ import annotations


def weak_script(name: str) -> str:
    return f"#!/bin/bash\n#SBATCH --comment={name}\necho starting {name}\necho 'name: {name}'\necho \"name: {name}\"\n"
