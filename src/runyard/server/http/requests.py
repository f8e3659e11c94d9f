"""Request bodies: read once, never beyond a limit, and checked into dataclasses.

JSON has more ways to be odd than a store can keep: a key twice, NaN, 1e400, NUL, half a surrogate pair. A person's
request with one of them is refused with its name; a machine's report is taken with the text made printable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from runyard.core.errors import InvalidArgument, ProtocolError, TooLarge
from runyard.core.formats.frames import Frame, iter_frames
from runyard.engine.texts import storable_value

T = TypeVar("T")
JSON_LIMIT = 16 << 20
FRAMES_LIMIT = 64 << 20
MAX_DEPTH = 100
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        TooLarge: it has more than `limit` bytes; no more than that was read.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def with_json(request: Request, work: Callable[[bytes], T], *, limit: int = JSON_LIMIT) -> T:
    """Read the body here and do the rest in a thread."""
    return await run_in_threadpool(work, await read_body(request, limit))


def parse(cls: type[T], body: bytes, *, unchecked: Iterable[str] = (), lenient: bool = False) -> T:
    """Return the body as a `cls`.

    Args:
        unchecked: top-level keys whose text may be anything: the submitter's variables are bytes of a foreign process.
        lenient: make unstorable text printable instead of refusing it.

    Raises:
        InvalidArgument: the body is no such JSON; says where and why, never what was sent.
    """
    loaded = _load(body)
    if lenient:
        loaded = storable_value(loaded)
    elif b"\\u" in body:
        _check_text({key: value for key, value in loaded.items() if key not in unchecked})
    try:
        return _adapter(cls).validate_python(loaded)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidArgument(
            "The request's body cannot be used.", why="; ".join(_fault(item) for item in faults[:3])
        ) from None


def parse_frames(body: bytes) -> list[Frame]:
    try:
        return list(iter_frames(body))
    except RecursionError:
        raise ProtocolError("A frame's head is nested too deeply.") from None


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    # Made at first use: building all of them would cost every start of the server.
    found = _ADAPTERS.get(cls)
    if found is None:
        found = _ADAPTERS[cls] = TypeAdapter(cls)
    return found


def _load(body: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(
            body.decode("utf-8"), object_pairs_hook=_without_twins, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError:
        raise InvalidArgument("The request's body is not UTF-8.") from None
    except RecursionError:
        raise InvalidArgument("The request's JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise InvalidArgument("The request's body is not JSON.", why=f"{error.msg} at character {error.pos}.") from None
    except InvalidArgument:
        raise
    except ValueError:
        raise InvalidArgument("The request's JSON holds a number with too many digits.") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(loaded)
    if not isinstance(loaded, dict):
        raise InvalidArgument(f"The request's body is a JSON {type(loaded).__name__}; an object is due.")
    return loaded


def _check_depth(loaded: Any) -> None:
    """Raise InvalidArgument for JSON that is nested too deeply: a walk through it calls itself at each level."""
    level, depth = [loaded], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidArgument(f"The request's JSON is nested too deeply: {MAX_DEPTH} levels are the most.")
        nested = (item for item in level if isinstance(item, (dict, list)))
        level = [value for item in nested for value in (item.values() if isinstance(item, dict) else item)]


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidArgument("The request's JSON has a key twice in one object.")
    return found


def _no_constant(text: str) -> float:
    raise InvalidArgument(f"The request's JSON holds {text}, which is no JSON number.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidArgument("The request's JSON holds a number beyond the range of a 64-bit float.")
    return value


def _check_text(loaded: Any) -> None:
    waiting = [loaded]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if _UNSTORABLE.search(item):
                raise InvalidArgument(
                    "A text in the request holds NUL or half a surrogate pair, which cannot be stored."
                )
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item


def _fault(item: Any) -> str:
    place = ".".join(str(part)[:80] for part in item["loc"]) or "body"
    return f"`{place}`: {item['msg']}"


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The request's body has more than {limit >> 20} MiB.",
        why="That is the most this address takes at once.",
        hint="Send it in several requests.",
    )
