"""The first micro-batch finds its kernels compiled."""

from __future__ import annotations

from muntin.cli import warmup


def test_the_warmup_job_runs_through():
    """In its thread a failure would be silent: the workers would compile after all, all of them at once."""
    warmup.compile_kernels()


def test_who_waits_is_told_why_and_a_failure_is_left_to_the_run(monkeypatch):
    def fail():
        raise ZeroDivisionError

    monkeypatch.setattr(warmup, "compile_kernels", fail)
    said = []
    warmup.Warmup().start().wait(said.append)
    assert len(said) <= 1
