"""Times and sizes as people type them: `90`, `10m`, `2h`; `500MB`, `20GB`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _Whole = click.ParamType[int]
else:
    _Whole = click.ParamType  # generic only in newer releases of click

UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
UNITS_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


class Seconds(_Whole):
    """Whole seconds, one or more."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"0*([1-9]\d*)([smhd]?)", str(value))
        if match is None:
            self.fail(f"{value!r} is no time. Write seconds, or 10m, 2h, 1d.", param, ctx)
        return int(match[1]) * UNITS_S[match[2]]


class Bytes(_Whole):
    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?b)?", str(value).lower())
        if match is None:
            self.fail(f"{value!r} is no size. Write 500MB, 20GB, or bytes.", param, ctx)
        return int(float(match[1]) * UNITS_BYTES[match[2] or ""])
