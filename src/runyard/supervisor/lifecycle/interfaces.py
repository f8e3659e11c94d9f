"""Which network interface of this machine has an address."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
_NAME_BYTES = 256


def find_interface(address: str) -> str:
    """Return its name; "" when none has it as its first IPv4 address, as with `127.0.1.2`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        for _, name in socket.if_nameindex():
            if _address_of(sock, name) == address:
                return name
    return ""


def _address_of(sock: socket.socket, name: str) -> str:
    request = struct.pack(f"{_NAME_BYTES}s", name.encode()[:15])
    try:
        return socket.inet_ntoa(fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)[20:24])
    except OSError:  # it has none
        return ""
