"""The way between a team's server and its machine: a network namespace for the machine, and a cable that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests import debian

_NETWORK = f"10.78.{os.getpid() % 250 + 1}"  # its own for each process, so that two of them can run at once
HERE, THERE = f"{_NETWORK}.1", f"{_NETWORK}.2"
NOBODYS_MAC = "02:00:00:00:00:01"


class Link:
    """Both faults are made on the machine's end: an address that this end lost would be looked for elsewhere."""

    def __init__(self) -> None:
        if shutil.which("ip") is None:
            debian.install("iproute2")
        self.name = f"ry-soak-{os.getpid()}"
        end = f"rys{os.getpid()}"[:15]
        _ip("netns", "add", self.name)
        _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("addr", "add", f"{HERE}/24", "dev", end)
        _ip("link", "set", end, "up")
        self._there("link", "set", "lo", "up")
        self._there("addr", "add", f"{THERE}/24", "dev", "eth0")
        self._there("link", "set", "eth0", "up")

    @property
    def words(self) -> list[str]:
        """What stands before a command that runs on the machine."""
        return ["ip", "netns", "exec", self.name]

    def unplug(self) -> None:
        """Programs are told at once that the network is unreachable."""
        self._there("link", "set", "eth0", "down")

    def plug(self) -> None:
        self._there("link", "set", "eth0", "up")

    def lose_packets(self) -> None:
        """Packets vanish, and nobody says so."""
        self._there("neigh", "replace", HERE, "lladdr", NOBODYS_MAC, "dev", "eth0", "nud", "permanent")

    def find_packets(self) -> None:
        self._there("neigh", "del", HERE, "dev", "eth0")

    def close(self) -> None:
        _ip("netns", "del", self.name)  # the cable goes with its end

    def _there(self, *words: str) -> None:
        _ip("-n", self.name, *words)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
