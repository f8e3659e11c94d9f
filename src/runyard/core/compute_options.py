"""The options of attached compute targets, by the kind of their cluster, and the options of a run on them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Callable, Dict, List, Mapping, Sequence, TypedDict

from runyard.core.errors import InvalidArgument
from runyard.core.specs import ResourceSpec

RAY, SLURM, SSH = "ray", "slurm", "ssh"
KINDS = (RAY, SLURM, SSH)
SECRETS = ("private_key", "env")  # kept in files of the server, never shown
AUTO = "auto"  # Ray's word: the cluster of this machine
SSH_PORT = 22
MOST_SLOTS, MOST_HOSTS = 1024, 1000

Check = Callable[[str, Any], Any]

_WORD = re.compile(r"[A-Za-z0-9_][\w.,:+@=/\-]{0,254}", re.ASCII)
_CONSTRAINT = re.compile(r"[A-Za-z0-9_\[(][\w.,:+@=/\-\[\]()*&|]{0,254}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.\-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*", re.ASCII)
_USER = re.compile(r"[A-Za-z_][\w.\-]{0,31}\$?", re.ASCII)
_ADDRESS = re.compile(r"auto|(?:ray://)?[A-Za-z0-9\[][A-Za-z0-9.\-:\[\]]{0,250}:[0-9]{1,5}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_EXTRA = re.compile(r"--?[A-Za-z][\w\-]*(?:[= ][^\x00-\x1f\x7f]*)?", re.ASCII)
_RESOURCE = re.compile(r"[A-Za-z_][\w.:\-]{0,127}", re.ASCII)


def check_options(kind: str, options: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the options that were given (None is not), each of its type.

    Raises:
        InvalidArgument: one is not known, or holds what it cannot; a mistyped one names its neighbour.
    """
    return _checked(_OPTIONS[kind], options, f"a {kind} target")


def check_resources(resources: ResourceSpec) -> None:
    """Raise InvalidArgument for resources that no node can have, or that no cluster can be asked for."""
    if resources.cpus is not None:
        _number("cpus", resources.cpus)
    if resources.memory_bytes is not None:
        _number("memory", resources.memory_bytes)
    for name, amount in resources.custom.items():
        _matching(_RESOURCE)("custom resource", name)
        _number(f"custom resource {name}", amount)
    _checked(RUN_OPTIONS, resources.cluster_options, "the resources of a run")


def check_known(name: str, known: Sequence[str], of_what: str) -> None:
    """Raise InvalidArgument for a name that is not known, with the one that was probably meant."""
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    raise InvalidArgument(
        f"{of_what[:1].upper()}{of_what[1:]} has no option {name[:60]!r}.",
        why=f"Known: {', '.join(known)}.",
        hint=f"Did you mean `{near[0]}`?" if near else "",
    )


class SshHost(TypedDict):
    """A machine of an ssh target."""

    address: str
    port: int
    slots: int  # runs at once


def host_of_slot(hosts: Sequence[Mapping[str, Any]]) -> List[int]:
    """Return which host each slot of an ssh target is on: every host's first slot, then every second one …"""
    rounds = max((int(host.get("slots", 1)) for host in hosts), default=0)
    return [index for turn in range(rounds) for index, host in enumerate(hosts) if int(host.get("slots", 1)) > turn]


def read_hosts(address: Any, *, port: int = SSH_PORT, slots: int = 1) -> List[SshHost]:
    """Return the hosts that `address` names: one, several with commas between or in a list, each perhaps with a port.

    Raises:
        InvalidArgument: one of them is no host name or address.
    """
    parts = address.split(",") if isinstance(address, str) else list(address or [])
    return _hosts("hosts", [_read_host(part, port, slots) for part in parts])


def _read_host(part: Any, port: int, slots: int) -> Mapping[str, object]:
    if isinstance(part, Mapping):
        return {"port": port, "slots": slots, **part}
    text = str(part).strip()
    name, colon, own_port = text.rpartition(":")
    if colon and ":" not in name and own_port.isdecimal():
        return {"address": name, "port": int(own_port), "slots": slots}
    return {"address": text, "port": port, "slots": slots}


def _checked(table: Mapping[str, Check], options: Mapping[str, Any], of_what: str) -> Dict[str, Any]:
    for name in options:
        check_known(str(name), list(table), of_what)
    return {name: table[name](name, value) for name, value in options.items() if value is not None}


def _matching(pattern: re.Pattern[str], hint: str = "") -> Check:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise InvalidArgument(
                f"The option {name} is {str(value)[:100]!r}.",
                why="It must be one word, without spaces and not beginning with a dash.",
                hint=hint,
            )
        return value

    return check


def _path(name: str, value: Any) -> str:
    if isinstance(value, str) and value.startswith("/") and not _has_control(value):
        return value
    raise InvalidArgument(f"The option {name} is {str(value)[:100]!r}.", why="It must be an absolute path.")


def _program(name: str, value: Any) -> str:
    """A path, or a name that the node looks up."""
    if isinstance(value, str) and value and not value.startswith("-") and not _has_control(value):
        return value
    raise InvalidArgument(
        f"The option {name} is {str(value)[:100]!r}.",
        why="It names a program of the nodes.",
        hint=f"{name}=/usr/bin/python3, or {name}=python3.11 to have it looked up.",
    )


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise InvalidArgument(f"The option {name} must be text that is not empty.")


def _number(name: str, value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    raise InvalidArgument(f"{name} is {str(value)[:40]}; it must be a number, 0 or more.")


def _count(name: str, value: Any, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise InvalidArgument(f"{name} is {str(value)[:40]}; it must be a whole number from 1 to {most}.")


def _extra(name: str, value: Any) -> List[str]:
    """More arguments for the cluster's submit command, one option each."""
    if isinstance(value, (list, tuple)):
        found = [str(one) for one in value]
        if all(_EXTRA.fullmatch(one) for one in found):
            return found
    raise InvalidArgument(
        f"The option {name} is {str(value)[:100]!r}.",
        why="It is a list of options for the cluster's submit command, each beginning with a dash, on one line.",
        hint=f"{name}=['--qos=high', '--exclusive']",
    )


def _variables(name: str, value: Any) -> Dict[str, str]:
    if isinstance(value, Mapping) and all(
        isinstance(key, str) and _VARIABLE.fullmatch(key) and isinstance(text, str) and "\0" not in text
        for key, text in value.items()
    ):
        return dict(value)
    raise InvalidArgument(f"The option {name} must be a dict of variables: name → text.")


def _hosts(name: str, value: Any) -> List[SshHost]:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MOST_HOSTS:
        raise InvalidArgument(f"The option {name} must list 1 to {MOST_HOSTS} hosts.", hint="address='hostA,hostB'")
    found = [_host(one) for one in value]
    twice = {(one["address"], one["port"]) for one in found}
    if len(twice) < len(found):
        raise InvalidArgument("A host is named twice.", hint="slots=2 lets two runs at it at once.")
    return found


def _host(value: Any) -> SshHost:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"A host must be a dict with address, port and slots, found {str(value)[:100]!r}.")
    for name in value:
        check_known(str(name), ("address", "port", "slots"), "a host")
    return {
        "address": _matching(_HOST, "A name or an address, such as `hostA` or `10.0.0.7`.")(
            "address", value.get("address")
        ),
        "port": _count("port", value.get("port", SSH_PORT), 65535),
        "slots": _count("slots", value.get("slots", 1), MOST_SLOTS),
    }


def _has_control(text: str) -> bool:
    return any(ord(char) < 32 or ord(char) == 127 for char in text)


_ON_NODES: Dict[str, Check] = {"python": _program, "node_home": _path, "shared_folder": _path}
RUN_OPTIONS: Dict[str, Check] = {
    "partition": _matching(_WORD),
    "account": _matching(_WORD),
    "qos": _matching(_WORD),
    "constraint": _matching(_CONSTRAINT),
    "extra": _extra,
}
_OPTIONS: Dict[str, Dict[str, Check]] = {
    RAY: {
        "address": _matching(_ADDRESS, "`auto`, `host:6379` or `ray://host:10001`"),
        "env": _variables,
        "cpus": _number,
        "node_python": _program,  # `python` is the one with Ray, on the server's machine
        **_ON_NODES,
    },
    SLURM: {**RUN_OPTIONS, "mpi": _matching(_WORD), **_ON_NODES},
    SSH: {
        "hosts": _hosts,
        "username": _matching(_USER),
        "private_key": _text,
        "known_hosts": _text,
        **_ON_NODES,
    },
}


def option_names(kind: str) -> List[str]:
    return list(_OPTIONS[kind])
