"""The constants of the cost model: what the fit finds, and that what it finds describes this machine."""

from __future__ import annotations

import json
from dataclasses import astuple, replace

import pytest

from muntin.bench import calibrate
from muntin.bench.calibrate import Measurement, fit, predicted_ns
from muntin.cli import main
from muntin.model import MuntinError
from muntin.plan.cost import Constants
from muntin.spark.control.calibration import constants_file, constants_json, load_constants

TRUE = Constants(invalidate_ns=20, scan_ns=3, insert_ns=100, check_ns=2, visit_ns=50, slice_ns=1, route_ns=4)
WORK = [
    (0, 5, 10, 10, 0, 0, 0),
    (10, 20, 10, 20, 0, 0, 0),
    (10, 20, 10, 30, 0, 0, 0),
    (10, 900, 10, 20, 0, 0, 0),
    (9, 9, 9, 9, 900, 0, 0),
    (9, 5, 9, 18, 1800, 0, 0),
    (10, 900, 10, 20, 0, 500, 0),
    (10, 900, 10, 20, 0, 0, 880),
]


def measurements(constants: Constants, noise: float = 0.0) -> list[Measurement]:
    made = [Measurement(str(n), *work, time_ns=1.0) for n, work in enumerate(WORK)]
    signs = [1, -1, 1, 1, -1, 1, -1, 1]
    return [replace(m, time_ns=predicted_ns(constants, m) * (1 + s * noise)) for m, s in zip(made, signs, strict=True)]


def test_the_fit_finds_the_constants_that_made_the_times():
    assert astuple(fit(measurements(TRUE))) == pytest.approx(astuple(TRUE))


def test_a_constant_that_is_nothing_comes_out_as_nothing():
    free = replace(TRUE, check_ns=0.0)
    assert astuple(fit(measurements(free))) == pytest.approx(astuple(free), abs=1e-6)


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_noise_never_makes_a_constant_negative(noise):
    found = fit(measurements(replace(TRUE, check_ns=0.0, invalidate_ns=0.0), noise))
    assert min(astuple(found)) >= 0
    assert found.insert_ns > 0


@pytest.mark.slow
def test_the_measured_constants_explain_the_measured_times():
    """Two rounds on a machine that may be busy: only the sum can be asked for, and that roughly."""
    taken = calibrate.measure(rounds=2)
    constants = fit(taken)
    assert {m.setting for m in taken} == {s.name for s in calibrate.SETTINGS}
    assert min(astuple(constants)) >= 0 and constants.scan_ns > 0
    assert 0.1 < sum(predicted_ns(constants, m) for m in taken) / sum(m.time_ns for m in taken) < 10


@pytest.mark.slow
def test_settings_mix_the_kinds_of_work_so_that_all_can_be_told_apart():
    for n in range(7):
        shares = [m.work[n] / m.inserted for m in (calibrate.run(s) for s in calibrate.SETTINGS)]
        assert n == 2 or max(shares) > 1.5 * min(shares), f"kind {n} always comes with insertion"


def test_the_command_keeps_the_constants_with_the_job_and_prints_them(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "calibrate", lambda: TRUE)
    assert main.main(["calibrate", "--json", "--checkpoint", str(tmp_path / "ckpt")]) == 0
    assert json.loads(capsys.readouterr().out)["scan_ns"] == 3
    assert load_constants(tmp_path / "ckpt") == TRUE
    assert main.main(["calibrate"]) == 0
    assert "100" in capsys.readouterr().out
    assert load_constants(tmp_path) is None


def test_a_damaged_file_of_constants_is_one_clear_message(tmp_path):
    path = constants_file(tmp_path)
    path.parent.mkdir()
    for text in ("", "{}", "[1]", constants_json(TRUE).replace("3", '"x"')):
        path.write_text(text)
        with pytest.raises(MuntinError, match=r"constants\.json is damaged"):
            load_constants(tmp_path)
