"""Log in to a team's server, and choose the server that calls go to.

The log-in checks the server's certificate and the token. `choose` takes RUNYARD_URL, else the server that a config.json
names, else the last login, else the private server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Optional, Tuple

from runyard.client.address import Address, parse_fingerprint, parse_url
from runyard.client.calls.server import WhoAmI
from runyard.client.client import Client
from runyard.client.decoding import ServerInfo
from runyard.client.transport import Transport, open_wire
from runyard.core.config.logins import Login, find_login, plain_url
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument, NotAuthenticated, NotTrusted, ServerUnreachable

_TIMEOUT_S = 10.0
_NO_TOKEN = "x"  # an address needs one; it is not sent


class Certificate(NamedTuple):
    """What the server shows. `is_vouched`: an authority of this system signed it for that name."""

    fingerprint: str
    is_vouched: bool


def server_address(url: str) -> Address:
    """Return the address that a person typed; without a scheme it is https.

    Raises:
        InvalidArgument: it is not one, or not over TCP.
    """
    address = parse_url(url if "://" in url else f"https://{url}", _NO_TOKEN)
    if address.kind != "tcp":
        raise InvalidArgument(f"{url!r} is not the address of a team's server.", hint="runyard login https://HOST:PORT")
    return address


def look_at(address: Address) -> Certificate:
    """Return the server's certificate. Nothing but the handshake is sent.

    Raises:
        ServerUnreachable: no server answers there.
        ProtocolError: it does not speak TLS.
    """
    # A process that never logs in needs no `ssl`.
    from runyard.client.tls import certificate_of, fingerprint_of

    try:
        return Certificate(fingerprint_of(certificate_of(address, timeout_s=_TIMEOUT_S)), _is_vouched(address))
    except OSError as error:
        raise ServerUnreachable(
            f"The server at {address} does not answer.",
            why=f"{error}.",
            hint="Check the address; `runyard server status` on the server's machine prints it.",
        ) from error


def check_pin(address: Address, wanted: str, found: Certificate) -> str:
    """Return the fingerprint to trust.

    Raises:
        NotTrusted: the server shows another certificate than the wanted one.
    """
    pin = parse_fingerprint(wanted)
    if pin != found.fingerprint:
        raise NotTrusted(
            f"The server at {address} has another certificate than the one you named.",
            why=f"Its SHA-256 is {found.fingerprint}. Either the fingerprint is an old one, or somebody between you "
            "and the server pretends to be it. Your token was not sent.",
            hint="Compare with `runyard server status` on the server's machine.",
        )
    return pin


def try_token(address: Address, fingerprint: str, token: str) -> Tuple[Login, ServerInfo, WhoAmI]:
    """Return the login, after the server accepted the token, the server's facts, and the principal of the token.

    Raises:
        NotAuthenticated: it did not.
    """
    trusted = replace(address, fingerprint=fingerprint, token=token)
    client = Client(Transport(trusted, timeout_s=_TIMEOUT_S))
    info = client.server.info(retry=False)
    return Login(str(address), token, fingerprint), info, client.users.me()


def _is_vouched(address: Address) -> bool:
    try:
        open_wire(replace(address, fingerprint=""), timeout_s=_TIMEOUT_S).close()
    except NotTrusted:
        return False
    return True


def pin_of(address: Address, given: Optional[str]) -> str:
    """Return the fingerprint that the caller named, by option or in the address; "" for none."""
    return parse_fingerprint(given) if given else address.fingerprint


class ServerChoice(NamedTuple):
    settings: Settings  # with `url` and `token` of the server; without `url` the private one
    why: str


def choose(settings: Settings, *, config_url: str = "", config_path: str = "") -> ServerChoice:
    """Return the settings to connect with.

    A token goes to no other server than the one it was given for: a config.json may come from a stranger.

    Raises:
        NotAuthenticated: the config.json names a server without a login.
        UserError: the file of logins cannot be used.
    """
    if settings.url:
        return ServerChoice(_with_known_token(settings, settings.url), "RUNYARD_URL is set")
    if config_url:
        login = find_login(settings.home, config_url)
        if login is None:
            raise _not_logged_in(config_url, config_path)
        return ServerChoice(_at(settings, login), f"{config_path} names it")
    login = find_login(settings.home)
    if login is not None:
        return ServerChoice(_at(settings, login), "`runyard login` was the last choice; `runyard logout` ends it")
    return ServerChoice(settings, "neither RUNYARD_URL nor a login names another")


def _with_known_token(settings: Settings, url: str) -> Settings:
    if settings.token:
        return settings
    login: Optional[Login] = find_login(settings.home, url)
    if login is None:
        return settings
    return replace(settings, url=url if "#" in url else login.pinned_url, token=login.token)


def _at(settings: Settings, login: Login) -> Settings:
    return replace(settings, url=login.pinned_url, token=login.token)


def _not_logged_in(url: str, path: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"You are not logged in to {plain_url(url)}.",
        why=f"{path} names that server, and no token of yours is known for it.",
        hint=f"runyard login {plain_url(url)}",
    )
