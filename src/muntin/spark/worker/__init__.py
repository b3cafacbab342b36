"""The process that Spark forks its Python workers from."""

from muntin.spark.worker.daemon import set_aside

__all__ = ["set_aside"]
