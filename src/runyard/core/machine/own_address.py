"""Under which address other machines most likely reach this one."""

from __future__ import annotations

import socket


def find_own_address() -> str:
    """Return the address that this machine's packets carry on their way out; "" when it has no network.

    Nothing is sent: a datagram socket only looks its route up.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # a documentation address, nobody's
            found = str(sock.getsockname()[0])
        except OSError:
            return ""
    return "" if found.startswith("127.") or found == "0.0.0.0" else found
