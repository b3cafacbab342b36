"""Sets of windows that experiments use."""

from __future__ import annotations

TABLE_1 = {
    "uniform": (1, 100, 200, 300, 400, 500, 600),
    "mostly-small": (1, 5, 15, 30, 60, 300, 600),
    "mostly-large": (1, 60, 300, 420, 510, 570, 600),
    "small-large": (1, 5, 15, 300, 510, 570, 600),
}
"""The distributions of hammad2003, table 1, in seconds."""
