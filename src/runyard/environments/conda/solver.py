"""The program that uses py-rattler: one JSON order on stdin, JSON lines on stdout.

Order: {"channels", "specs", "prefix", "cache", "alias"}. Lines: {"say": text} while it works, then {"packages":
[{"name", "version", "build", "sha256"}]} or {"error": kind, "text"}; kinds are "missing", "unreachable", "channel",
"solve", "spec" and "install".

It is run by path as a process of its own, because the library starts threads, and because the run's own variables
(proxies, certificates) apply to it. It imports nothing of Runyard.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, Mapping, TypedDict

SOLVE_S = 600.0
INDEX_S = 120  # to fetch a channel's index: a server that never answers must become an error


class SolveOrder(TypedDict):
    channels: List[str]
    specs: List[str]
    prefix: str
    cache: str
    alias: str  # a URL before the channels' names; "": conda's own


def main() -> int:
    sys.path.pop(0)  # this file's folder: its names are not for import
    order: SolveOrder = json.loads(sys.stdin.read())
    try:
        import asyncio
        import importlib

        rattler: Any = importlib.import_module("rattler")
        errors: Any = importlib.import_module("rattler.exceptions")
    except ImportError as error:
        return _tell({"error": "missing", "text": str(error)})
    try:
        packages = asyncio.run(_install(rattler, errors, order))
    except errors.GatewayError as error:
        return _tell({"error": "unreachable" if _is_out_of_reach(str(error)) else "channel", "text": str(error)})
    except errors.SolverError as error:
        return _tell({"error": "solve", "text": str(error)})
    except _bad_specs(errors) as error:
        return _tell({"error": "spec", "text": str(error)})
    except Exception as error:
        return _tell({"error": "install", "text": f"{type(error).__name__}: {error}"})
    return _tell({"packages": packages})


async def _install(rattler: Any, errors: Any, order: SolveOrder) -> List[Dict[str, str]]:
    specs = [rattler.MatchSpec(spec) for spec in order["specs"]]
    records = await _solve(rattler, errors, order, specs)
    size = sum(record.size or 0 for record in records)
    _say(f"Installing {len(records)} conda packages ({size / 1e6:.1f} MB to download unless cached).")
    await rattler.install(records, target_prefix=order["prefix"], cache_dir=order["cache"], show_progress=False)
    return [
        {
            "name": record.name.normalized,
            "version": str(record.version),
            "build": str(record.build),
            "sha256": record.sha256.hex() if record.sha256 else "",
        }
        for record in sorted(records, key=lambda record: record.name.normalized)
    ]


async def _solve(rattler: Any, errors: Any, order: SolveOrder, specs: List[Any]) -> List[Any]:
    """Take each package from the first channel that has it; where that fits nothing, from any, as conda does."""
    try:
        return await _solve_once(rattler, order, specs, rattler.ChannelPriority.Strict)
    except errors.SolverError:
        if len(order["channels"]) < 2:
            raise
    found = await _solve_once(rattler, order, specs, rattler.ChannelPriority.Disabled)
    _say("No solution keeps to the order of the channels; packages come from any of them.")
    return found


async def _solve_once(rattler: Any, order: SolveOrder, specs: List[Any], priority: Any) -> List[Any]:
    import datetime

    client = rattler.Client.default_client(max_retries=1, timeout=INDEX_S)
    config = rattler.ChannelConfig(**({"channel_alias": order["alias"]} if order["alias"] else {}))
    found: List[Any] = await rattler.solve(
        sources=[rattler.Channel(channel, config) for channel in order["channels"]],
        specs=specs,
        gateway=rattler.Gateway(cache_dir=order["cache"], client=client),
        virtual_packages=rattler.VirtualPackage.detect(),
        channel_priority=priority,
        timeout=datetime.timedelta(seconds=SOLVE_S),
    )
    return found


def _is_out_of_reach(text: str) -> bool:
    """Whether no server answered at all; a server that refuses is another matter."""
    return "error sending request" in text or "timed out" in text


def _bad_specs(errors: Any) -> Any:
    names = ("InvalidMatchSpecError", "InvalidVersionSpecError", "InvalidChannelError", "InvalidUrlError")
    return tuple(getattr(errors, name) for name in names)


def _say(text: str) -> None:
    _tell({"say": text})


def _tell(line: Mapping[str, object]) -> int:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
