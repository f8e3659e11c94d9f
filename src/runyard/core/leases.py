"""How long server and supervisors trust each other's last word."""

from __future__ import annotations

LEASE_S = 30.0
