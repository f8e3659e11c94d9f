"""What a script returned becomes an answer on the wire."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple, Union

from runyard.serving.protocol import FAILED, TIMED, Header, WireAnswer, pack_headers

_JSON = b"content-type\napplication/json"
_FAILED_HEADER = "x-ms-run-function-failed"


class ResponseHeaders(List[Tuple[str, str]]):
    """Headers of an answer in their order; a name may come more than once."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            super().__setitem__(key, value)
            return
        self.discard(key)
        self.append((key, str(value)))

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None if isinstance(key, str) else super().__contains__(key)

    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self if key.lower() == name.lower()), default)

    def add(self, name: str, value: object) -> None:
        self.append((name, str(value)))

    add_header = set = add

    def getlist(self, name: str) -> List[str]:
        return [value for key, value in self if key.lower() == name.lower()]

    def items(self) -> Iterator[Tuple[str, str]]:
        return iter(self)

    def discard(self, name: str) -> None:
        """Leave out every header of that name."""
        self[:] = [pair for pair in self if pair[0].lower() != name.lower()]


class AMLResponse:
    """An answer as a script wants it: body, status and headers, sent as they are."""

    def __init__(
        self,
        message: Any,
        status_code: int,
        response_headers: Dict[str, str] = {},  # noqa: B006  # Azure's own signature; it is only read
        json_str: bool = False,
        run_function_failed: bool = False,
    ) -> None:
        self.status_code = int(status_code)
        self.headers = ResponseHeaders()
        if message is None or json_str:
            self.data = to_json({} if message is None else message)
            self.headers.add("Content-Type", "application/json")
        else:
            self.data = _to_bytes(message)
            self.headers.add("Content-Type", "text/html; charset=utf-8")
        if any(name.lower() == "content-type" for name in response_headers):
            self.headers.discard("Content-Type")
        self.headers[_FAILED_HEADER] = run_function_failed
        for name, value in response_headers.items():
            for one in str(value).split(","):  # repeated headers are written with commas
                self.headers.add(name, one.strip())

    @property
    def status(self) -> str:
        return str(self.status_code)

    @property
    def content_type(self) -> str:
        return str(self.headers.get("Content-Type", ""))

    @content_type.setter
    def content_type(self, value: str) -> None:
        self.headers["Content-Type"] = value

    mimetype = content_type

    def get_data(self, as_text: bool = False) -> Union[bytes, str]:
        return self.data.decode("utf-8") if as_text else self.data

    def set_data(self, value: Union[bytes, str]) -> None:
        self.data = _to_bytes(value)


class ScoringOutcome(NamedTuple):
    """What became of one request, without its id."""

    status: int
    flags: int
    exec_us: int
    head: bytes
    body: bytes

    def wire(self, number: int) -> WireAnswer:
        return WireAnswer(number, self.status, self.flags, self.exec_us, self.head, self.body)


def json_outcome(value: Any, exec_us: int) -> ScoringOutcome:
    return ScoringOutcome(200, TIMED, exec_us, _JSON, to_json(value))


def outcome_of(value: Any, exec_us: int) -> ScoringOutcome:
    """Return the outcome of a call that returned `value`.

    Raises:
        TypeError: it cannot be written as JSON.
    """
    if isinstance(value, AMLResponse):
        return _outcome_of_response(value.status_code, list(value.headers), value.data, exec_us)
    if hasattr(value, "get_data") and hasattr(value, "status_code") and hasattr(value, "headers"):
        return _outcome_of_response(int(value.status_code), list(value.headers.items()), value.get_data(), exec_us)
    if value is None:
        value = {}
    return json_outcome(value, exec_us)


def error_outcome(status: int, message: str, *, failed: bool = False) -> ScoringOutcome:
    """Return an answer of ours: a JSON object with a message."""
    return ScoringOutcome(status, FAILED if failed else 0, 0, _JSON, to_json({"message": message}))


def to_json(value: Any) -> bytes:
    """Return JSON; arrays and numbers of numpy and its like become lists and numbers.

    Raises:
        TypeError: there is something else in it.
    """
    return json.dumps(value, default=_plain).encode("utf-8")


def _plain(value: Any) -> Any:
    for name in ("tolist", "to_list"):
        method = getattr(value, name, None)
        if callable(method):
            return method()
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("run() returned bytes, which JSON cannot hold. Return AMLResponse(data, 200), or base64 text.")
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(f"run() returned a {kind}, which JSON cannot hold. Return lists, dicts, numbers and texts.")


def _outcome_of_response(status: int, headers: List[Tuple[str, Any]], data: Any, exec_us: int) -> ScoringOutcome:
    said = [str(value).lower() for name, value in headers if name.lower() == _FAILED_HEADER]
    flags = TIMED | (FAILED if status >= 500 or "true" in said else 0)
    kept = [_header(name, value) for name, value in headers if name.lower() not in _OURS]
    return ScoringOutcome(status, flags, exec_us, pack_headers(kept), _to_bytes(data))


# The gateway writes these itself.
_OURS = frozenset({_FAILED_HEADER, "x-ms-run-fn-exec-ms", "content-length", "connection", "transfer-encoding", "date"})


def _header(name: str, value: Any) -> Header:
    text = str(value).replace("\r", " ").replace("\n", " ")
    return name.strip().lower().encode("ascii"), text.encode("latin-1", "replace")


def _to_bytes(message: Any) -> bytes:
    if isinstance(message, str):
        return message.encode("utf-8")
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    if isinstance(message, (dict, int, float)):
        return to_json(message)
    return b"".join(part.encode("utf-8") if isinstance(part, str) else bytes(part) for part in message)
