"""One request as scripts see it: headers, query, body, forms."""

from __future__ import annotations

import io
import json
import re
from functools import lru_cache
from typing import Any, Dict, Iterable, Iterator, List, Tuple
from urllib.parse import parse_qsl, unquote

from runyard.serving.protocol import Bytes, Json, WireRequest, read_headers


class BadRequest(Exception):
    """The request cannot be passed to the script; `status` is what the client gets."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Headers(Dict[str, str]):
    """Headers by name, in whatever letters they are asked for."""

    def __init__(self, pairs: Iterable[Tuple[str, str]] = ()) -> None:
        super().__init__()
        for name, value in pairs:
            key = _spelled(name)
            super().__setitem__(key, f"{super().__getitem__(key)},{value}" if key in self else value)

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(_spelled(name))

    def __setitem__(self, name: str, value: str) -> None:
        super().__setitem__(_spelled(name), value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(_spelled(name))

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(_spelled(name), default)


class Values(Json):
    """Values by name: `[]` and `get` give the first one, `getlist` all of them."""

    def __init__(self, pairs: Iterable[Tuple[str, Any]] = ()) -> None:
        super().__init__()
        self._all: Dict[str, List[Any]] = {}
        for name, value in pairs:
            self._all.setdefault(name, []).append(value)
            self.setdefault(name, value)

    def getlist(self, name: str) -> List[Any]:
        return list(self._all.get(name, ()))

    def to_dict(self, flat: bool = True) -> Json:
        return dict(self) if flat else {name: list(values) for name, values in self._all.items()}

    def lists(self) -> Iterator[Tuple[str, List[Any]]]:
        yield from ((name, list(values)) for name, values in self._all.items())


class UploadedFile:
    """One file of a multipart form."""

    def __init__(self, data: bytes, filename: str, name: str, content_type: str) -> None:
        self.stream = io.BytesIO(data)
        self.filename = filename
        self.name = name
        self.content_type = self.mimetype = content_type
        self.content_length = len(data)

    def save(self, destination: Any, buffer_size: int = 16384) -> None:
        """Write what is left of the stream to a path or a file."""
        data = self.stream.read()
        if hasattr(destination, "write"):
            destination.write(data)
            return
        with open(destination, "wb") as file:
            file.write(data)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.stream)

    def __bool__(self) -> bool:
        return bool(self.filename)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)  # read, seek, tell, readline, …


class ScoringRequest:
    """One request; its head is read when somebody asks for more than the method."""

    def __init__(self, wire: WireRequest) -> None:
        self.id = wire.id
        self._head = wire.head
        self._body: Bytes = wire.body
        first = wire.head.find(b"\n")
        self.method = wire.head[:first].decode("ascii")
        end = wire.head.find(b"\n", first + 1)
        self._target = wire.head[first + 1 : end if end >= 0 else len(wire.head)]

    @property
    def target(self) -> str:
        return self._target.decode("latin-1")

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def query_string(self) -> bytes:
        return self._target.partition(b"?")[2]

    @property
    def body(self) -> bytes:
        if not isinstance(self._body, bytes):
            self._body = bytes(self._body)
        return self._body

    def text(self) -> str:
        """Return the body as text.

        Raises:
            BadRequest: it is not UTF-8.
        """
        try:
            return str(self._body, "utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest(f"The body is not UTF-8: {error}.") from None

    def json(self) -> Any:
        """Return the body's value.

        Raises:
            BadRequest: it is empty, or not JSON.
        """
        if not len(self._body):
            raise BadRequest("The body is empty; JSON is expected.")
        text = self.text()
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"The body is not JSON: {error}.") from None

    def header_pairs(self) -> List[Tuple[str, str]]:
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in read_headers(self._head, 2)]

    def headers(self) -> Headers:
        return Headers(self.header_pairs())

    def content_type(self) -> str:
        return str(self.headers().get("content-type", ""))

    def is_json(self) -> bool:
        kind = self.content_type().partition(";")[0].strip().lower()
        return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))

    def query(self) -> List[Tuple[str, str]]:
        return parse_qsl(self.query_string.decode("latin-1"), keep_blank_values=True)

    def query_values(self) -> Json:
        """Return the query's parameters: JSON where they are JSON, texts where not, repeated ones as lists."""
        found: Dict[str, List[Any]] = {}
        for name, text in self.query():
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = text
            found.setdefault(name, []).append(value)
        return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def read_form(content_type: str, body: bytes) -> Tuple[List[Tuple[str, str]], List[Tuple[str, UploadedFile]]]:
    """Return the fields and the files of a form; nothing for a body of another type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True), []
    boundary = _parameter(content_type, "boundary") if kind == "multipart/form-data" else ""
    fields: List[Tuple[str, str]] = []
    files: List[Tuple[str, UploadedFile]] = []
    for head, data in _parts(body, boundary.encode("latin-1")) if boundary else ():
        disposition = str(head.get("content-disposition", ""))
        name, filename = _parameter(disposition, "name"), _parameter(disposition, "filename")
        if "filename" in disposition:
            kind = str(head.get("content-type", "application/octet-stream"))
            files.append((name, UploadedFile(data, filename, name, kind)))
        else:
            fields.append((name, data.decode("utf-8", "replace")))
    return fields, files


def _parts(body: bytes, boundary: bytes) -> Iterator[Tuple[Headers, bytes]]:
    mark = b"\r\n--" + boundary
    for part in (b"\r\n" + body).split(mark)[1:]:
        if part.startswith(b"--"):
            return
        head, found, data = part.partition(b"\r\n\r\n")
        if found:
            lines = [line.partition(":") for line in head.decode("utf-8", "replace").splitlines() if ":" in line]
            yield Headers((name.strip(), value.strip()) for name, _, value in lines), data


def _parameter(header: str, name: str) -> str:
    found = re.search(rf'(?:^|;)\s*{name}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))', header, re.IGNORECASE)
    if found is None:
        return ""
    return re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2]


@lru_cache(maxsize=512)
def _spelled(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))
