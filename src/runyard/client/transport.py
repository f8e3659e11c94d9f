"""Requests and answers over one address: a connection per thread and process, errors as classes of `core.errors`."""

from __future__ import annotations

import json as jsonlib
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Mapping, Optional, Set, Tuple, Union

from runyard.client.address import Address
from runyard.client.http1 import Body, Dropped, Head, Query, Request, Wire, set_timeouts
from runyard.core.errors import (
    NOTICE_HEADER,
    BadGateway,
    NotAuthenticated,
    ProtocolError,
    RunyardError,
    ServerUnreachable,
    error_from_plain,
)

Revive = Callable[[Address], Address]

_MOST_TRIES = 3
_REVIVE_FOR_S = 30.0
_heard: Set[str] = set()


def _hear(head: Head) -> None:
    """Say on stderr what the server wants a person to know, each kind once in a process."""
    notice = head.headers.get(NOTICE_HEADER)
    if notice is None:
        return
    kind, _, text = notice.partition(" ")
    if kind not in _heard:
        _heard.add(kind)
        shown = "".join(char for char in text if char.isprintable())
        print(f"runyard: warning: {shown}", file=sys.stderr, flush=True)


class Response:
    """An answer. `read` and `json` may be called once the body is there; a stream is read by `iter_bytes`."""

    def __init__(self, head: Head, body: Union[bytes, Iterator[bytes]]) -> None:
        self.status = head.status
        self.headers: Mapping[str, str] = head.headers  # names in small letters
        self._body = body

    def read(self) -> bytes:
        if not isinstance(self._body, bytes):
            self._body = b"".join(self._body)
        return self._body

    def iter_bytes(self) -> Iterator[bytes]:
        if isinstance(self._body, bytes):
            return iter((self._body,))
        return self._body

    def json(self) -> Any:
        """Return the body's value.

        Raises:
            ProtocolError: it is not JSON.
        """
        try:
            return jsonlib.loads(self.read())
        except (ValueError, RecursionError) as error:
            raise ProtocolError(
                "The server's answer is not JSON.", why=f"It starts with {self.read()[:80]!r}."
            ) from error


class Transport:
    """One long-lived object for all threads and forked children; opens connections when needed and keeps them.

    Every route of ours may be repeated, so a request whose answer got lost is sent again: at once on a new connection,
    and again after `revive` (which starts a private server again) gave the address to go on with, for half a minute.
    An answer that is not our server's, such as a proxy's error page, counts as none.
    """

    def __init__(self, address: Address, *, timeout_s: float = 30.0, revive: Optional[Revive] = None) -> None:
        _check_token(address.token)
        self.address = address
        self.timeout_s = timeout_s
        self._revive = revive
        self._local = threading.local()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Query] = None,
        json: Any = None,
        body: Optional[Body] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout_s: Optional[float] = None,
        retry: bool = True,
    ) -> Response:
        """Send and return the whole answer; `path` is below /api/v1.

        Raises:
            ServerUnreachable: no server answers, or not in time.
            BadGateway: the answer is not our server's.
            RunyardError: what the server answered, as the same class. `core.errors.is_later` tells outages apart.
        """
        response = self.exchange(Request(method, path, query, json, body, headers), timeout_s=timeout_s, retry=retry)
        if response.status >= 400:
            raise error_from_plain(response.json()["error"], status=response.status)
        return response

    def exchange(self, request: Request, *, timeout_s: Optional[float] = None, retry: bool = True) -> Response:
        """Send and return the whole answer of our server, whatever its status.

        Raises:
            ServerUnreachable, BadGateway, ProtocolError: as `request`.
        """
        wire, head, data = self._repeat(lambda wire: _read_whole(wire, request, self.address), timeout_s, retry)
        self._keep(wire, head)
        _hear(head)
        stranger = _find_stranger(head, data)
        if stranger is not None:
            raise stranger
        return Response(head, data)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Query] = None,
        json: Any = None,
        body: Optional[Body] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout_s: Optional[float] = None,
        retry: bool = True,
    ) -> Iterator[Response]:
        """Like `request`, but the body is read while it comes; leaving early closes the connection."""
        request = Request(method, path, query, json, body, headers)
        with self.exchange_stream(request, timeout_s=timeout_s, retry=retry) as response:
            if response.status >= 400:
                raise error_from_plain(response.json()["error"], status=response.status)
            yield response

    @contextmanager
    def exchange_stream(
        self, request: Request, *, timeout_s: Optional[float] = None, retry: bool = True
    ) -> Iterator[Response]:
        """Like `exchange`, but the body of a good answer is read while it comes."""
        wire, head, data = self._repeat(lambda wire: _read_start(wire, request, self.address), timeout_s, retry)
        done: List[bool] = []
        _hear(head)
        try:
            stranger = _find_stranger(head, data)
            if stranger is not None:
                raise stranger
            yield Response(head, data if data is not None else _guarded(wire, head, done, self.address))
        finally:
            if data is not None or done:
                self._keep(wire, head)
            else:
                wire.close()

    def close(self) -> None:
        """Close this thread's connection; a later request opens another."""
        wire = self._take_kept()
        if wire is not None:
            wire.close()

    def _repeat(
        self, exchange: Callable[[Wire], Tuple[Head, Any]], timeout_s: Optional[float], retry: bool
    ) -> Tuple[Wire, Head, Any]:
        """Run `exchange` on a connection until it gets an answer; return the connection with it."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        revive = self._revive if retry else None
        give_up_at = time.monotonic() + (_REVIVE_FOR_S if revive else 0.0)
        tries = 0
        while True:
            tries += 1
            is_last = tries >= _MOST_TRIES and time.monotonic() >= give_up_at
            try:
                # A kept connection may have been closed meanwhile, which only shows after sending.
                wire = (self._take_kept() if retry else None) or open_wire(self.address, timeout_s=limit_s)
            except ServerUnreachable:
                if revive is None or is_last:
                    raise
                self.address = revive(self.address)
                continue
            try:
                wire.set_timeout(limit_s)
                head, data = exchange(wire)
                if revive is None or is_last or _find_stranger(head, data) is None:
                    return wire, head, data
                wire.close()
                self.address = revive(self.address)
            except Dropped as error:
                wire.close()
                if is_last or not retry:
                    raise _unreachable(self.address, error) from error
                time.sleep(0.02 * (tries - 1))
            except BaseException:
                wire.close()
                raise

    def _take_kept(self) -> Optional[Wire]:
        kept = getattr(self._local, "kept", None)
        self._local.kept = None
        if kept is None:
            return None
        pid, address, wire = kept
        if pid == os.getpid() and address is self.address:
            return wire  # type: ignore[no-any-return]  # threading.local has no types
        wire.close()  # a forked child's copy, or one to where the server was before
        return None

    def _keep(self, wire: Wire, head: Head) -> None:
        if not head.keep_alive or getattr(self._local, "kept", None) is not None:
            wire.close()
            return
        self._local.kept = (os.getpid(), self.address, wire)


def open_wire(address: Address, *, timeout_s: float) -> Wire:
    """Connect.

    Raises:
        ServerUnreachable: no server listens there.
        NotTrusted: the certificate is not the server's.
    """
    try:
        if address.kind == "unix":
            sock = _connect_unix(str(address.path), timeout_s)
        else:
            sock = socket.create_connection((str(address.host).strip("[]"), int(address.port or 0)), timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _wire_on(sock, address, timeout_s)
    except RunyardError:
        raise
    except OSError as error:
        raise _unreachable(address, error) from error


def _wire_on(sock: socket.socket, address: Address, timeout_s: float) -> Wire:
    if not address.tls:
        return Wire(sock, timeout_s=timeout_s)
    # Most processes speak over a unix socket and need no `ssl`.
    from runyard.client.tls import TlsWire

    try:
        return TlsWire(sock, address, timeout_s=timeout_s)
    except BaseException:
        sock.close()
        raise


def _connect_unix(path: str, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A non-blocking connect fails at once when the server's backlog is full; a blocking one waits for its turn.
        set_timeouts(sock, timeout_s)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _read_whole(wire: Wire, request: Request, address: Address) -> Tuple[Head, bytes]:
    head = _ask(wire, request, address)
    return head, wire.read_body(head)


def _read_start(wire: Wire, request: Request, address: Address) -> Tuple[Head, Optional[bytes]]:
    head = _ask(wire, request, address)
    return head, wire.read_body(head) if head.status >= 300 else None


def _ask(wire: Wire, request: Request, address: Address) -> Head:
    try:
        wire.send(request.pieces(address))
        for piece in request.file.iter_pieces() if request.file else ():
            wire.send([piece])
    except Dropped as error:
        # A server that refuses a body answers and closes without reading it to the end.
        try:
            return wire.read_head(request.method)
        except Dropped:
            raise error from None
    return wire.read_head(request.method)


def _guarded(wire: Wire, head: Head, done: List[bool], address: Address) -> Iterator[bytes]:
    try:
        yield from wire.iter_body(head)
    except Dropped as error:
        raise _unreachable(address, error) from error
    done.append(True)


def _find_stranger(head: Head, data: Optional[bytes]) -> Optional[RunyardError]:
    """Return the error to raise for an answer that did not come from a server of ours; None: it is ours."""
    if head.status < 300:
        return _not_ours(head, b"") if _is_page(head) else None
    if head.status < 400:
        return ProtocolError(
            "The server wants to send this request elsewhere.",
            why=f"It answered {head.status}; a redirect is never followed, since the token would go along.",
            hint="Set RUNYARD_URL to the server's own address.",
        )
    return None if _is_our_error(data or b"") else _not_ours(head, data or b"")


def _is_our_error(data: bytes) -> bool:
    """Whether a body is an error of ours: `{"error": {"code": …}}`, below /mlflow MLflow's `{"error_code": …}`."""
    try:
        plain = jsonlib.loads(data)
        return isinstance(plain["error_code"] if "error_code" in plain else plain["error"]["code"], str)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_page(head: Head) -> bool:
    """No route below /api answers with a page; a proxy or a login page in front of the server does."""
    return head.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/html"


def _not_ours(head: Head, data: bytes) -> BadGateway:
    text = "" if _is_page(head) else data[:200].decode("utf-8", "replace").strip()
    shown = "a web page" if _is_page(head) else f"`{text}`" if text else "nothing"
    return BadGateway(
        f"The answer did not come from a Runyard server (status {head.status}).",
        why=f"It holds {shown}. A proxy in front of the server answers so while the server is away or "
        "when it does not let the request through.",
        hint="Is the server behind the proxy up, and is RUNYARD_URL its address? Ask again in a moment.",
    )


def _check_token(token: str) -> None:
    if not token or not all(33 <= ord(char) <= 126 for char in token):
        raise NotAuthenticated(
            "The token for the server is missing or not a token.",
            why="A token is one word of letters and digits.",
            hint="Set RUNYARD_TOKEN to the content of `<home>/server/token` on the server's machine.",
        )


def _unreachable(address: Address, error: Optional[BaseException]) -> ServerUnreachable:
    reason = str(error).rstrip(".") if error else "It closed each connection"
    return ServerUnreachable(
        f"The server at {address} does not answer.",
        why=f"{reason}.",
        hint="`runyard server status` says more." if address.home else _where_else(address),
    )


def _where_else(address: Address) -> str:
    hint = "Check the address (RUNYARD_URL, `runyard login`) and that the server is up."
    plain_tcp = address.kind == "tcp" and not address.tls
    return f"{hint} A team's server mostly speaks TLS: https://{address.authority}." if plain_tcp else hint
