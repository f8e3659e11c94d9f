"""The settings of a home's server, private or a team's, in `<home>/server/settings.json`.

The file makes them independent of the process that starts the server. docs/reference/settings.md describes each.
"""

from __future__ import annotations

import ipaddress
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any, Dict, List, Tuple

from runyard.core.config.paths import server_folder
from runyard.core.errors import InvalidArgument
from runyard.core.lazy_dataclass import dataclass
from runyard.core.machine.files import read_private, write_private
from runyard.core.names import check_plain_name

TEAM_PORT = 8787
_EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True)
class ServerSettings:
    """`metadata["key"]` is the setting's name in the file and on the command line."""

    host: str = field(default="", metadata={"key": "server.host"})  # "": only this machine's user
    port: int = field(default=0, metadata={"key": "server.port"})
    names: List[str] = field(default_factory=list, metadata={"key": "server.names"})  # NAME or NAME:PORT
    database: str = field(default="", metadata={"key": "server.database"})  # "": SQLite in the home
    tls_cert: str = field(default="", metadata={"key": "server.tls_cert"})
    tls_key: str = field(default="", metadata={"key": "server.tls_key"})
    behind_proxy: bool = field(default=False, metadata={"key": "server.behind_proxy"})  # plain HTTP; a proxy has TLS
    # The key keeps its first name: settings files have it.
    amlcompute_cluster: str = field(default="", metadata={"key": "compute.amlcompute.engine"})
    quota_run_bytes: int = field(default=0, metadata={"key": "server.quota_run_bytes"})  # of one run's files; 0: none
    quota_user_bytes: int = field(default=0, metadata={"key": "server.quota_user_bytes"})  # of all runs of a user
    local_for_users: bool = field(default=False, metadata={"key": "compute.local.for_users"})  # else admins alone

    @property
    def is_team(self) -> bool:
        return bool(self.host)

    @property
    def has_tls(self) -> bool:
        """Whether the team's port speaks TLS itself."""
        return self.is_team and not self.behind_proxy

    @property
    def known_names(self) -> List[Tuple[str, int]]:
        """The names and ports under which others know this server, the first one for links and nodes."""
        usual = 443 if self.behind_proxy else self.port
        given = [split_name(name, usual) for name in self.names]
        return given if given or is_everywhere(self.host) else [split_name(self.host, usual)]


KEYS: Dict[str, str] = {each.metadata["key"]: each.name for each in fields(ServerSettings)}


def settings_file(home: Path) -> Path:
    return server_folder(home) / "settings.json"


def read_server_settings(home: Path) -> ServerSettings:
    """Return what the file says; without one, a private server's.

    Raises:
        InvalidArgument: an unknown key, or a value that does not fit.
        UserError: the file cannot be used.
    """
    path = settings_file(home)
    found: Dict[str, Any] = {}
    for key, value in read_private(path).items():
        name = field_of(key, f"In {path}: ")
        found[name] = _typed(key, value, f"In {path}: ")
    return checked(ServerSettings(**found))


def write_server_settings(home: Path, settings: ServerSettings) -> None:
    """Write what differs from the defaults."""
    checked(settings)
    default = ServerSettings()
    values = {key: getattr(settings, name) for key, name in KEYS.items()}
    write_private(
        settings_file(home), {key: value for key, value in values.items() if value != getattr(default, KEYS[key])}
    )


def with_setting(settings: ServerSettings, key: str, text: str) -> ServerSettings:
    """Return the settings with one changed to what a person typed; an empty text is the default again.

    Raises:
        InvalidArgument: there is no such setting, or the text does not fit.
    """
    name = field_of(key)
    return checked(replace(settings, **{name: _from_text(key, getattr(ServerSettings(), name), text)}))


def field_of(key: str, place: str = "") -> str:
    """Return the attribute of a setting's name.

    Raises:
        InvalidArgument: there is no such setting; a near one is named.
    """
    if key in KEYS:
        return KEYS[key]
    import difflib  # only for a key that nobody knows

    near = difflib.get_close_matches(key, KEYS, n=1)
    raise InvalidArgument(
        f"{place}there is no setting `{key}`." if place else f"There is no setting `{key}`.",
        why=f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(KEYS)}.",
        hint="`runyard server settings` shows them.",
    )


def checked(settings: ServerSettings) -> ServerSettings:
    """Raise InvalidArgument when the settings do not fit together."""
    for key, is_wrong, why, hint in _faults(settings):
        if is_wrong:
            raise InvalidArgument(f"The setting `{key}` does not fit.", why=why, hint=hint)
    return settings


def _faults(settings: ServerSettings) -> List[Tuple[str, bool, str, str]]:
    odd = [name for name in [settings.host.strip("[]"), *settings.names] if _is_odd(name)]
    return [
        ("server.port", not 0 <= settings.port < 65536, f"{settings.port} is not a port.", f"Take {TEAM_PORT}."),
        (
            "server.quota_run_bytes",
            settings.quota_run_bytes < 0,
            f"{settings.quota_run_bytes} is not a number of bytes.",
            "Take 0 for no quota.",
        ),
        (
            "server.quota_user_bytes",
            settings.quota_user_bytes < 0,
            f"{settings.quota_user_bytes} is not a number of bytes.",
            "Take 0 for no quota.",
        ),
        (
            "server.host",
            bool(odd),
            f"{(odd or [''])[0]!r} is not a name or an address.",
            "Give a name or address of this machine, without http://.",
        ),
        (
            "server.port",
            settings.is_team and not settings.port,
            "A team server needs a port that stays.",
            f"runyard server start --host {settings.host} --port {TEAM_PORT}",
        ),
        (
            "server.tls_key",
            bool(settings.tls_cert) != bool(settings.tls_key),
            "A certificate needs its key, and a key its certificate.",
            "Give both --tls-cert and --tls-key, or neither: a certificate is made then.",
        ),
        (
            "server.behind_proxy",
            settings.behind_proxy and bool(settings.tls_cert),
            "Behind a proxy, the proxy has the certificate.",
            "Leave out --tls-cert and --tls-key, or --behind-proxy.",
        ),
        (
            "server.names",
            settings.is_team and is_everywhere(settings.host) and not settings.names,
            f"With host {settings.host} the server listens on all addresses of this machine, but does not know the "
            "name that others call it by: a wrong one would let foreign web pages in, and nodes could not find it.",
            "Say it: --name HOST (several times where there are several), or give the address as --host.",
        ),
        (
            "compute.amlcompute.engine",
            not _is_cluster(settings.amlcompute_cluster),
            f"{settings.amlcompute_cluster!r} names no cluster.",
            "slurm, slurm:PARTITION, ray:HOST:PORT, or the name of an attached target.",
        ),
        (
            "server.names",
            settings.is_team and settings.behind_proxy and not settings.names,
            "Others reach the proxy and not this port.",
            "Say under which name they do: --name HOST, or --name HOST:PORT when it is not port 443.",
        ),
        (
            "server.database",
            bool(settings.database) and not settings.database.startswith(("postgresql://", "postgres://")),
            "A team's database is PostgreSQL; without one, SQLite in the home is used.",
            "--database postgresql://user:password@host:5432/name",
        ),
    ]


def _is_cluster(text: str) -> bool:
    if not text:
        return True
    # Most servers do without it: the records of compute targets would load before the server listens.
    from runyard.core.compute import parse_cluster_name

    try:
        return parse_cluster_name(text) is not None or bool(check_plain_name(text))
    except InvalidArgument:
        return False


def is_everywhere(host: str) -> bool:
    return host.strip("[]") in _EVERYWHERE


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_name(name: str, usual_port: int) -> Tuple[str, int]:
    """Return name and port of `NAME`, `NAME:PORT`, an IPv6 address or `[ADDRESS]:PORT`."""
    host, colon, port = name.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.startswith("[")):
        return host, int(port)
    return f"[{name}]" if ":" in name and not name.startswith("[") else name, usual_port


def _is_odd(name: str) -> bool:
    return any(not (char.isascii() and (char.isalnum() or char in ".-_[]:")) for char in name)


def _typed(key: str, value: Any, place: str) -> Any:
    default = getattr(ServerSettings(), KEYS[key])
    fits = type(value) is type(default)
    if isinstance(value, list):
        fits = fits and all(isinstance(item, str) for item in value)
    if fits:
        return value
    words = {str: "a text", int: "a number", bool: "true or false", list: "a list of texts"}
    raise InvalidArgument(f"{place}`{key}` must be {words[type(default)]}.", why=f"It is {value!r}.")


def _from_text(key: str, default: Any, text: str) -> Any:
    if not text:
        return default
    if isinstance(default, list):
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise InvalidArgument(f"`{key}` must be true or false.", why=f"It is {text!r}.")
        return text.lower() in ("true", "yes", "1")
    if isinstance(default, int):
        if not (text.isascii() and text.isdigit()):
            raise InvalidArgument(f"`{key}` must be a number.", why=f"It is {text!r}.")
        return int(text)
    return text
