"""Where the driver takes results of eager delivery (`EagerHub`); tasks carry it, so this imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """Host and port, and the secret that is asked for."""

    host: str
    port: int
    token: str
