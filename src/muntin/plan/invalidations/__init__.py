"""Which stale rows an arriving row takes out (kostowski 3.2 and 4.2), one file for each way.

They change no answer, only how many stale rows are kept and how many comparisons it takes to find them. Behind each of
them a sweep takes out the rest at the end of a micro-batch.
"""

from muntin.model import AUTO
from muntin.plan.invalidations.all import All
from muntin.plan.invalidations.invalidation import Invalidation
from muntin.plan.invalidations.probe import Probe
from muntin.plan.invalidations.probe_all import ProbeAll
from muntin.plan.invalidations.probe_insert import ProbeInsert
from muntin.plan.registry import Registry

__all__ = ["BEST_INVALIDATION", "INVALIDATIONS", "Invalidation", "invalidation_of"]

BEST_INVALIDATION = ProbeInsert()
"""The paper's choice (4.2): as quick as `probe`, as small as `all`."""
INVALIDATIONS: Registry[Invalidation] = Registry(Probe(), BEST_INVALIDATION, ProbeAll(), All())


def invalidation_of(setting: str) -> Invalidation:
    """The invalidation that a setting stands for."""
    return BEST_INVALIDATION if setting == AUTO else INVALIDATIONS[setting]
