"""Off: windows alone free rows, the window join that ding2004 compares with."""

from __future__ import annotations

from muntin.plan.punctuation_modes.mode import PunctuationMode


class Off(PunctuationMode):
    name = "off"
    title = "WJoin"
    paper = "ding2004, section 6"
    summary = "promises are not looked at; rows leave at the end of their window"
    listens = False
