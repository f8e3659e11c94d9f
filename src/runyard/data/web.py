"""Files at web addresses: fetched whole or not at all, and listed where they lie in a public blob container."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.request
import xml.etree.ElementTree
from typing import Callable, List, NamedTuple, Optional, Tuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from runyard.core.errors import InvalidArgument, NotFound, ProtocolError, SystemFailure
from runyard.core.machine.files import atomic_write

_TIMEOUT_S = 60.0
_PIECE = 1 << 20
Progress = Callable[[int, Optional[int]], None]  # bytes that came, and of how many where that is known


class WebFile(NamedTuple):
    name: str  # below the part of the address before its first pattern
    url: str
    size: int


def fetch(url: str, target: str, *, sha256: str = "", progress: Optional[Progress] = None) -> None:
    """Write what an http(s) address holds to `target`, whole or not at all.

    Raises:
        InvalidArgument: it is another kind of address.
        SystemFailure: it cannot be fetched.
        ProtocolError: it is not what `sha256` says.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidArgument(f"A dataset's address must begin with http:// or https://, found {url[:100]!r}.")
    digest, came = hashlib.sha256(), 0
    try:
        with atomic_write(target) as beside, urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            length = answer.headers.get("Content-Length", "")
            due = int(length) if length.isdigit() else None
            with open(beside, "xb") as out:
                for piece in iter(lambda: answer.read(_PIECE), b""):
                    out.write(piece)
                    digest.update(piece)
                    came += len(piece)
                    if progress is not None:
                        progress(came, due)
            if due is not None and came != due:
                raise OSError(f"{came} bytes came; {due} were due")
            if sha256 and digest.hexdigest() != sha256:
                raise ProtocolError(
                    f"{url} is not the file that it should be.",
                    why=f"Its SHA-256 is {digest.hexdigest()}; {sha256} was due.",
                    hint="Somebody changed it there, or on the way. Get it from another place that you trust.",
                )
    except (OSError, http.client.HTTPException) as error:
        raise SystemFailure(f"{url} could not be fetched.", why=str(error), hint="Is the network there?") from error


def list_addresses(pattern: str) -> List[WebFile]:
    """Return the files of a public blob container that fit `https://account/container/folder/*`.

    Raises:
        NotFound: nothing fits.
        SystemFailure: the server does not list what it has, as few but blob storage do.
    """
    from runyard.data.datasets import compile_pattern, fixed_part

    parts = urlsplit(pattern)
    container, _, path = unquote(parts.path).lstrip("/").partition("/")
    base = fixed_part(path)
    fitting, root = compile_pattern(path), f"{parts.scheme}://{parts.netloc}/{quote(container)}"
    start = len(base) + 1 if base else 0
    query = f"?{parts.query}" if parts.query else ""
    found = [
        WebFile(name[start:], f"{root}/{quote(name)}{query}", size)
        for name, size in _list_container(root, f"{base}/" if base else "", parts.query)
        if fitting.fullmatch(name)
    ]
    if not found:
        raise NotFound(f"Nothing at {pattern} fits.", hint="`*` stays within a folder, `**` goes through folders.")
    return sorted(found)


def _list_container(root: str, prefix: str, query: str) -> List[Tuple[str, int]]:
    found: List[Tuple[str, int]] = []
    marker = ""
    while True:
        asked = urlencode({"restype": "container", "comp": "list", "prefix": prefix, "marker": marker})
        tree = _read_listing(f"{root}?{asked}{'&' + query if query else ''}")
        for blob in tree.iter("Blob"):
            size = blob.findtext("Properties/Content-Length") or "0"
            found.append((blob.findtext("Name") or "", int(size)))
        marker = tree.findtext("NextMarker") or ""
        if not marker:
            return found


def _read_listing(address: str) -> xml.etree.ElementTree.Element:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
            text = answer.read().decode("utf-8-sig")
        if re.search("<!(DOCTYPE|ENTITY)", text):
            raise ValueError("the answer declares entities")
        return xml.etree.ElementTree.fromstring(text)
    except (OSError, http.client.HTTPException, ValueError, xml.etree.ElementTree.ParseError) as error:
        raise SystemFailure(
            f"The files at {address.partition('?')[0]} could not be listed.",
            why=f"{error}. Only public containers of blob storage list their files.",
            hint="Name the files one by one: from_files(['https://…/a.csv', 'https://…/b.csv']).",
        ) from error
