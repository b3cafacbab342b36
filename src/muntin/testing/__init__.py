"""A whole job in this process, without Spark: for tests, studies and comparisons."""

from muntin.testing.local_job import LocalJob

__all__ = ["LocalJob"]
