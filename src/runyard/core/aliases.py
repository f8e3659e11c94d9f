"""The alias file: names in old code, and the targets that they mean here. One a line: `gpu-cluster = slurm:gpu`."""

from __future__ import annotations

from typing import Dict, Tuple

from runyard.core.compute import RESERVED
from runyard.core.engine_names import check_target_name
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name

FILE = "aliases"
MOST_BYTES = 1 << 20


def read_aliases(text: str, *, path: str) -> Dict[str, str]:
    """Return name → target.

    Raises:
        InvalidArgument: a line is none; it is named with its number.
    """
    found: Dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        try:
            name, target = _read_line(said, found)
        except InvalidArgument as error:
            raise InvalidArgument(
                f"Line {number} of {path} is no alias: {said[:100]!r}.",
                why=f"{error.what} {error.why}".strip(),
                hint="A line is `gpu-cluster = slurm:gpu`; a comment begins with #.",
            ) from error
        found[name] = target
    for name, target in found.items():
        if target in found:
            raise InvalidArgument(
                f"The alias `{name}` in {path} means `{target}`, which is an alias itself.",
                hint=f"{name} = {found[target]}",
            )
    return found


def _read_line(said: str, before: Dict[str, str]) -> Tuple[str, str]:
    name, equals, target = (part.strip() for part in said.partition("="))
    if not equals:
        raise InvalidArgument("There is no `=`.")
    check_asset_name(name)
    if name.lower() in RESERVED:
        raise InvalidArgument(f"`{name}` always means this machine.")
    if name in before:
        raise InvalidArgument(f"`{name}` is named a second time.")
    return name, check_target_name(target)
