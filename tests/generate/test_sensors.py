"""Generated streams are what they say: the same for the same seed, in arrival order, disordered within the bound."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.generate import generate
from muntin.generate.sensors import READINGS, Sensors, cooling_fault
from muntin.model import UsageError

SMALL = {"rate": 20, "duration_s": 60, "locations": 10, "files": 6}


def files_of(generated, stream):
    return sorted(generated.streams[stream].glob("*.parquet"))


def times_of(path):
    return pq.read_table(path)["ts"].cast(pa.int64()).to_numpy()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_rows(tmp_path):
    first, again, other = (
        generate("sensors", tmp_path / name, seed=seed, **SMALL) for name, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    for stream in first.streams:
        one, two, three = ([f.read_bytes() for f in files_of(g, stream)] for g in (first, again, other))
        assert one == two
        assert one != three


def test_changing_one_stream_leaves_the_other_as_it_was(tmp_path):
    even = generate("sensors", tmp_path / "even", **SMALL)
    slow = generate("sensors", tmp_path / "slow", humidity_rate=1, **SMALL)
    assert slow.rows["Humidity"] < even.rows["Humidity"]
    same = [[f.read_bytes() for f in files_of(g, "Temperature")] for g in (even, slow)]
    assert same[0] == same[1]


def test_names_and_modification_times_both_sort_in_order_of_time(tmp_path):
    generated = generate("sensors", tmp_path / "d", **SMALL)
    for stream in generated.streams:
        paths = files_of(generated, stream)
        assert len(paths) == SMALL["files"]
        modified = [p.stat().st_mtime for p in paths]
        assert modified == sorted(set(modified))
        times = np.concatenate([times_of(p) for p in paths])
        assert len(times) == generated.rows[stream] > 0
        assert (np.diff(times) >= 0).all()


def test_file_i_of_every_stream_covers_the_same_stretch_of_time(tmp_path):
    generated = generate("sensors", tmp_path / "d", humidity_rate=2, **SMALL)
    start = min(times_of(files_of(generated, s)[0])[0] for s in generated.streams) // 10_000_000 * 10_000_000
    for stream in generated.streams:
        for number, path in enumerate(files_of(generated, stream)):
            assert ((times_of(path) - start) // 10_000_000 == number).all()


def test_disorder_stays_within_its_bound_and_is_declared_in_the_job(tmp_path):
    generated = generate("sensors", tmp_path / "d", disorder_s=2.5, **SMALL)
    assert "LATENESS 2500 milliseconds" in generated.job_sql
    for stream in generated.streams:
        times = np.concatenate([times_of(p) for p in files_of(generated, stream)])
        behind = np.maximum.accumulate(times) - times
        assert 0 < behind.max() < 2_500_000


def test_arrivals_are_poisson_in_number(tmp_path):
    generated = generate("sensors", tmp_path / "d", rate=200, duration_s=100, files=100, locations=5)
    counts = np.array([pq.read_metadata(p).num_rows for p in files_of(generated, "Temperature")])
    assert counts.mean() == pytest.approx(200, rel=0.05)
    assert counts.var() == pytest.approx(counts.mean(), rel=0.5), "a Poisson count varies by its mean"


def test_the_job_file_lies_beside_the_data_and_names_it(tmp_path):
    generated = generate("sensors", tmp_path / "it's", **SMALL)
    assert generated.job.read_text() == generated.job_sql
    assert str(tmp_path / "it''s" / "temperature") in generated.job_sql


@pytest.mark.slow
def test_two_million_rows_are_written_in_the_files_asked_for(tmp_path):
    generated = generate("sensors", tmp_path / "d", rate=1000, duration_s=1000, files=20)
    assert sum(generated.rows.values()) > 1_990_000
    assert len(list((tmp_path / "d").rglob("*.parquet"))) == 40


@pytest.mark.parametrize("workload", ["pareto", "clustered"])
def test_a_workload_that_is_still_to_come_is_refused_by_name(tmp_path, workload):
    with pytest.raises(UsageError, match=f"{workload} is not supported yet"):
        generate(workload, tmp_path / "d")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate must be greater than zero"),
        ({"files": -1}, "files must be greater than zero"),
        ({"seed": -1}, "seed must not be negative"),
        ({"disorder_s": -1}, "disorder_s must not be negative"),
        ({"humidity_rate": 0}, "humidity_rate must be greater than zero"),
        ({"location": 5}, "no option location"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        generate("sensors", tmp_path / "d", **options)
    assert not (tmp_path / "d").exists()


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"):
        generate("sensors", tmp_path, **SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_the_cooling_of_one_rack_fails_in_the_last_third_and_of_no_other(tmp_path):
    options = {"rate": 200, "duration_s": 300, "locations": 50, "files": 3}
    generated = generate("sensors", tmp_path / "d", **options)
    fault = cooling_fault(Sensors(**options))
    assert len(fault.locations) == 10
    for stream, reading in READINGS.items():
        table = pa.concat_tables([pq.read_table(f) for f in files_of(generated, stream)])
        location, value = table["LocationId"].to_numpy(), table["Value"].to_numpy()
        inside = (location >= fault.locations.start) & (location < fault.locations.stop)
        times = table["ts"].cast(pa.int64()).to_numpy()
        before, after = times < fault.begins_us, times >= fault.begins_us + fault.rises_us
        rises = [value[where & after].mean() - value[where & before].mean() for where in (inside, ~inside)]
        assert rises == pytest.approx([reading.rise, 0], abs=1)
