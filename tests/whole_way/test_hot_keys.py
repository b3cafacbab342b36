"""Hot keys over the whole way: jobs whose keys become hot and cold between runs, with kills, restarts and changes."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from muntin.core.arrivals import HotKeys
from muntin.model import Axis
from whole_way.judge import Judge
from whole_way.net import LIVES, folder, run_all
from whole_way.queries import INNER, PLAIN
from whole_way.random_jobs import Text, random_life, random_text

JOBS = int(os.environ.get("MUNTIN_HOT_JOBS", "64"))


def takes_part(text: Text) -> bool:
    queries = [*text.queries, *text.spare]
    keyed = all(q.key != "TRUE" and Axis.ROWS not in q.window.axes for q in queries)
    plain = all(q.kind == PLAIN and q.join == INNER for q in queries)
    return keyed and plain and text.shards > 1 and text.order == "global" and not any(text.promises)


@pytest.mark.slow
def test_jobs_with_hot_keys_leave_behind_what_both_judges_say(monkeypatch: pytest.MonkeyPatch):
    met: Counter[str] = Counter()
    gather = HotKeys.gather

    def counted(self, join, side, rows, copies, place):
        found = gather(self, join, side, rows, copies, place)
        met["copies taken"] += found.num_rows - rows.num_rows
        met["copies left aside"] += copies.num_rows - (found.num_rows - rows.num_rows)
        return found

    monkeypatch.setattr(HotKeys, "gather", counted)
    texts = islice((text for text in map(random_text, range(70_000, 90_000)) if takes_part(text)), JOBS // LIVES)
    root, wanted = folder(), 0
    try:
        for text in texts:
            lives = islice((life for n in range(100) if not (life := random_life(text, n)).online), LIVES)
            wanted += run_all([replace(life, number=n) for n, life in enumerate(lives)], Judge(), root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{wanted} rows wanted, {dict(met)}")
    assert wanted and met["copies taken"], "nothing was shown"
