"""Where the gateway of services listens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GatewayListener:
    """Where the gateway listens: for people, and for workers on other machines."""

    host: str = "127.0.0.1"
    name: str = "localhost"  # in addresses that people are shown
    names: tuple[str, ...] = ()
    port: int = 0  # 0: any
    certificate: str = ""
    key: str = ""
    fingerprint: str = ""
    workers_port: int = 0  # 0: workers are on this machine only

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"
