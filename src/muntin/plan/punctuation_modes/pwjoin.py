"""PWJoin (ding2004 4.2): windows and promises both free rows."""

from __future__ import annotations

from muntin.plan.punctuation_modes.mode import PunctuationMode


class PWJoin(PunctuationMode):
    name = "pwjoin"
    title = "PWJoin"
    paper = "ding2004, section 4.2"
    summary = "rows leave at the end of their window, or sooner when a promise frees them"
