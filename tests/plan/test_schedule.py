"""What is joined next: the queues of hammad2003 3, and the matrix of its figure 4."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.generate.windows import TABLE_1
from muntin.model import Axis
from muntin.plan import share
from muntin.plan.cost import DEFAULT
from muntin.plan.explain import explain, explain_json
from muntin.plan.granularity import SHARE, best_scheduler, granularity_for, row_ns
from muntin.plan.levels import MOST, Levels, levels_of
from muntin.plan.response_times import alone
from muntin.plan.schedulers import SCHEDULERS, RunQueues, stretches, throughputs
from muntin.plan.traffic import Knowledge
from muntin.sql import parse_job

SECOND = 1_000_000

lwo, swf, mqt = (SCHEDULERS[name].response for name in ("lwo", "swf", "mqt"))


def described(*given: Any) -> dict[str, Any]:
    """What EXPLAIN has as JSON."""
    found: dict[str, Any] = json.loads(explain_json(*given))
    return found


def levels(*windows: int, queries: tuple[int, ...] | None = None) -> Levels:
    of = [n for n, count in enumerate(queries or [1] * len(windows)) for _ in range(count)]
    return Levels((windows, windows), tuple(of))


def test_the_matrix_of_figure_4():
    """Windows 2w, 3w and 6w with one query each; row i: scanned up to w_i, column j: may go to w_j."""
    matrix = throughputs((2, 3, 6), (1, 1, 1))
    assert matrix[0][1:] == pytest.approx([1 / 2, 2 / 3, 2 / 3])
    assert matrix[1][2:] == pytest.approx([1, 1])
    assert matrix[2][3:] == pytest.approx([1 / 3])


def test_the_matrix_counts_the_queries_of_each_window():
    assert throughputs((2, 3, 6), (1, 1, 9))[0][3] == pytest.approx(11 / 6)
    assert throughputs((2, 3, 6), (1, 1, 9))[2][3] == pytest.approx(9 / 3)


@pytest.mark.parametrize(
    "name, units",
    [
        ("lwo", [(0, 0, 3), (1, 0, 3)]),
        ("swf", [(0, 0, 1), (1, 0, 1), (0, 1, 2), (1, 1, 2), (0, 2, 3), (1, 2, 3)]),
        ("mqt", [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2), (0, 2, 3), (1, 2, 3)]),
    ],
)
def test_the_order_of_figures_2_3_and_4(name, units):
    """a11 comes first, b12 after its first unit; windows 2w, 3w, 6w."""
    scheduler = RunQueues(SCHEDULERS[name], levels(2, 3, 6))
    scheduler.add(0)
    first = scheduler.next()
    scheduler.add(1)
    rest = list(iter(scheduler.next, None))
    assert [first, *rest] == units


@given(
    st.sampled_from(SCHEDULERS.names),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=5),
    st.lists(st.integers(0, 3), max_size=30),
)
def test_no_run_overtakes_an_earlier_one_and_each_scans_every_level_once(name, steps, arrivals):
    ends = [sum(size for size, _ in steps[: n + 1]) for n in range(len(steps))]
    scheduler = RunQueues(SCHEDULERS[name], levels(*ends, queries=tuple(count for _, count in steps)))
    scanned: dict[int, int] = {}
    came = 0
    for step in [*arrivals, *[0] * 1000]:
        for _ in range(step):
            scheduler.add(came)
            scanned[came] = 0
            came += 1
        unit = scheduler.next()
        if unit is not None:
            assert scanned[unit.run] == unit.first < unit.last
            scanned[unit.run] = unit.last
            assert all(scanned[a] >= scanned[a + 1] for a in range(came - 1))
            left = [run for run, done in scanned.items() if done < len(ends)]
            assert scheduler.oldest == (min(left) if left else None)
    assert set(scanned.values()) <= {len(ends)}


def test_levels_follow_the_larger_window_of_a_query_and_end_where_its_queries_need(job):
    spec = job((10,), ((4, 30),), ((20, 20),), ((20, 20),), ((1, 1),))
    found = levels_of(share(spec).joins[0])
    assert found.of_query == (1, 3, 2, 2, 0)
    assert found.ends == tuple(tuple(s * SECOND for s in side) for side in ((1, 10, 20, 20), (1, 10, 20, 30)))
    assert found.queries == (1, 1, 2, 1)
    assert found.sizes[-1] == 1 and list(found.sizes) == sorted(found.sizes)
    assert found.ages(0, 3, 4) == (20 * SECOND, 20 * SECOND) and found.ages(1, 1, 3) == (1 * SECOND, 20 * SECOND)


def test_rows_and_time_are_compared_as_parts_of_the_largest_window(job):
    found = levels_of(share(job(((100, 1),), ((7, 8),), ((20, 2),), axes=(Axis.ROWS, Axis.TIME))).joins[0])
    assert found.of_query == (1, 1, 0) and found.ends == ((20, 100), (2 * SECOND, 8 * SECOND))


def test_very_many_windows_share_levels(job):
    found = levels_of(share(job(*[(n + 1,) for n in range(500)])).joins[0])
    assert MOST / 2 < len(found) <= MOST and sum(found.queries) == 500
    assert all(n + 1 <= found.ends[0][found.of_query[n]] / SECOND <= 1.1 * (n + 1) for n in range(500))


@pytest.mark.parametrize("windows", TABLE_1.values(), ids=TABLE_1)
@pytest.mark.parametrize("most", range(1, 8))
def test_windows_of_about_the_same_size_share_levels_where_these_must_be_few(job, windows, most):
    found = levels_of(share(job(*[(w,) for w in windows])).joins[0], most)
    assert len(found) <= most and sum(found.queries) == 7 and found.ends[0][-1] == 600 * SECOND
    assert len(found) == 7 or most < 7


@pytest.mark.parametrize("partners", [0, 1, 10, 100, 1_000, 12_000, 1_000_000])
def test_work_is_cut_so_finely_that_the_cutting_costs_a_small_part_of_it(job, partners):
    join = share(job(*[(w,) for w in TABLE_1["small-large"]])).joins[0]
    ns = row_ns(partners, partners, DEFAULT)
    cut = granularity_for(join, ns, DEFAULT)
    assert (len(cut.levels) - 1) * DEFAULT.pass_ns <= SHARE * ns
    assert len(cut.levels) * DEFAULT.unit_ns <= SHARE * ns * cut.run_length
    assert cut.run_length == 1 or len(cut.levels) * DEFAULT.unit_ns > SHARE * ns * (cut.run_length - 1)


def test_a_dense_join_scans_each_window_for_itself_and_a_selective_one_all_at_once(job):
    join = share(job(*[(w,) for w in TABLE_1["small-large"]])).joins[0]
    selective, dense, denser = (granularity_for(join, row_ns(n, n, DEFAULT), DEFAULT) for n in (1, 12_000, 10**6))
    assert len(selective.levels) == 1 and selective.run_length > 1_000
    assert selective.scheduler("auto", 10**6).name == "lwo"
    assert len(dense.levels) == len(denser.levels) == 7 and dense.run_length < 32 and denser.run_length == 1
    assert denser.scheduler("auto", 50).name == "mqt"


# -- formulas ------------------------------------------------------------------------------------------------------


def walked(name: str, sizes: tuple[int, ...], m: int) -> list[float]:
    """Mean response time per window by walking through the units one comparison at a time."""
    scheduler = RunQueues(SCHEDULERS[name], levels(*sizes))
    for run in range(m):
        scheduler.add(run)
    clock, total, held = 0, [0.0] * len(sizes), {}
    done = [0] * m
    for unit in iter(scheduler.next, None):
        low = sizes[unit.first - 1] if unit.first else 0
        for place in range(low, sizes[unit.last - 1]):
            clock += 1
            level = next(n for n, size in enumerate(sizes) if place < size)
            for k in range(level, len(sizes)):
                if name == "swf" or (name == "mqt" and any(d <= k for d in done[: unit.run])):
                    held.setdefault((unit.run, k), []).append(1)
                else:
                    total[k] += clock
        done[unit.run] = unit.last
        for run, k in list(held):
            open_ = all(d > k for d in done[:run])
            if open_ and (name == "mqt" or run == unit.run):
                total[k] += clock * len(held.pop((run, k)))
    assert not held
    return [sum_ / (m * size) for sum_, size in zip(total, sizes, strict=True)]


@pytest.mark.parametrize("sizes", [(2, 3, 6), (1, 100, 200, 300), (3, 4, 50, 60), (5,)])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_formulas_are_the_means_of_a_walk_through_the_schedule(sizes, m):
    for i, size in enumerate(sizes):
        assert lwo(sizes, i, m) == pytest.approx(walked("lwo", sizes, m)[i])
        assert mqt(sizes, i, m) == pytest.approx(walked("mqt", sizes, m)[i])
        assert alone(size, m) == pytest.approx(walked("lwo", (size,), m)[0])


def test_equation_2_leaves_out_only_what_the_first_row_sends_at_once():
    sizes, m = (10, 50, 150, 3000), 50
    for i, found in enumerate(walked("swf", sizes, m)):
        assert found == pytest.approx(swf(sizes, i, m), rel=0.01) and found <= swf(sizes, i, m)


def test_mqt_pauses_at_the_corners_of_the_hull():
    assert stretches((2, 3, 6), (1, 1, 1)) == (3, 6)
    assert stretches((2, 3, 6), (1, 1, 9)) == (6,)
    assert stretches(TABLE_1["uniform"], (1,) * 7) == (1, 100, 600)


@pytest.mark.parametrize("windows", TABLE_1.values(), ids=TABLE_1)
def test_small_windows_are_penalised_by_lwo_and_not_by_the_others(windows):
    """Figures 2(b) and 3(b): lambda = 100 rows a second, m = 50."""
    sizes = [100 * w for w in windows]
    single = alone(sizes[0], 50)
    assert lwo(sizes, 0, 50) > 100 * single
    assert swf(sizes, 0, 50) < 1.05 * single and mqt(sizes, 0, 50) < 1.05 * single
    assert swf(sizes, 6, 50) > lwo(sizes, 6, 50), "at the expense of the largest window"


def test_auto_is_the_lowest_mean_and_the_simplest_without_a_burst():
    for windows in TABLE_1.values():
        assert best_scheduler(windows, (1,) * 7, 50).name == "mqt"
        assert best_scheduler(windows, (1,) * 7, 1).name == "lwo"
    assert best_scheduler((5,), (3,), 50).name == "lwo"


def test_explain_says_which_rows_leave_at_the_end_of_their_micro_batch():
    declared = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = '{}');"
    text = "SET delivery = 'eager';" + "".join(declared.format(name, name) for name in "AB")
    text += "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;"
    sums = "CREATE QUERY n AS SELECT COUNT(*) AS n FROM A, B WHERE A.k = B.k WINDOW 2 s;"
    assert "end of their micro-batch" not in explain(parse_job(text))
    assert "aggregates (n) go out at the end of their micro-batch, which does all work" in explain(
        parse_job(text + sums)
    )


def test_explain_foretells_the_response_of_each_query_under_each_scheduler(job):
    windows = [(w,) for w in TABLE_1["small-large"]]
    plan = described(job(*windows, rate=100.0, delivery="eager"), Knowledge(keys=5))
    found = plan["joins"][0]["scheduling"]
    assert (found["scheduler"], found["scheduler_by"], found["burst_rows"]) == ("mqt", "auto", 200)
    run = found["run_rows"]
    assert found["levels"] == 7 and 1 < run < 50
    sizes = [w * 100 / 5 * run for (w,) in windows]
    t_ms = (plan["constants"]["scan_ns"] + plan["constants"]["deliver_ns"]) / 1e6
    for n in range(7):
        times = found["response_ms"][f"q{n + 1}"]
        assert times["lwo"] == pytest.approx(lwo(sizes, n, 200 / run, t_ms), abs=1e-6)
        assert times["swf"] == pytest.approx(swf(sizes, n, 200 / run, t_ms), abs=1e-6)
        assert times["mqt"] == pytest.approx(mqt(sizes, n, 200 / run, t_ms), abs=1e-6)
    assert min(found["mean_ms"], key=found["mean_ms"].get) == "mqt"
    text = explain(job(*windows, rate=100.0, delivery="eager"), Knowledge(keys=5))
    assert "in the order of scheduler mqt, chosen by auto" in text and "after 200 rows at once" in text
    assert f"runs of {run} rows go through 7 levels of windows, by what a row costs" in text
    assert "delivers its results as it finds them" in text


def test_explain_says_where_every_scheduler_does_the_same(job):
    windows = [(w,) for w in TABLE_1["small-large"]]
    found = described(job(*windows, rate=100.0, delivery="eager"), Knowledge(keys=50_000))["joins"][0]["scheduling"]
    assert (found["scheduler"], found["levels"]) == ("lwo", 1) and len(set(found["mean_ms"].values())) <= 2
    text = explain(job(*windows, rate=100.0, delivery="eager"), Knowledge(keys=50_000))
    assert "1 level of windows, so that every scheduler does the same" in text


def test_explain_says_that_inside_a_micro_batch_order_cannot_be_seen(job):
    text = explain(job((1,), (9,), scheduler="lwo"))
    assert "the order of work inside it cannot be seen" in text and "at once" not in text


def test_selections_make_bursts_lighter(job):
    light = described(job((5, "v > 3"), (60, "v > 3"), delivery="eager"), Knowledge(selectivities={"q1": (0.1, None)}))
    heavy = described(job((5,), (60,), delivery="eager"))
    assert (
        light["joins"][0]["scheduling"]["response_ms"]["q2"]["lwo"]
        < heavy["joins"][0]["scheduling"]["response_ms"]["q2"]["lwo"] / 5
    )
