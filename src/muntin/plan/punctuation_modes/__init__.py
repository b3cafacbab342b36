"""What a job does with the promises of its streams (ding2004): one file for each mode of `SET punctuations`.

What a promise is, and which of a stream's promises are about a join's key, is in plan/punctuation.py. A mode changes
which rows are kept and for how long, never an answer.
"""

from muntin.plan.joins import SharedJoin
from muntin.plan.punctuation_modes.mode import PunctuationMode
from muntin.plan.punctuation_modes.off import Off
from muntin.plan.punctuation_modes.pjoin import PJoin
from muntin.plan.punctuation_modes.pwjoin import PWJoin
from muntin.plan.registry import Registry

__all__ = ["PUNCTUATION_MODES", "PunctuationMode", "are_used"]

PUNCTUATION_MODES: Registry[PunctuationMode] = Registry(PWJoin(), PJoin(), Off())


def are_used(join: SharedJoin, setting: str) -> bool:
    """Whether a join has promises to look after under a setting."""
    return PUNCTUATION_MODES[setting].uses(join)
