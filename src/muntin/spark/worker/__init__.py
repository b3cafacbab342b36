"""The process that Spark forks its Python workers from.

Spark names `daemon` in its settings and runs it instead of PySpark's own. It imports what the workers need once, before
they are forked, and sets what the imports leave aside from the garbage collector. Workers call `set_aside` after a
task. Nothing here knows of joins or queries.
"""

from muntin.spark.worker.daemon import set_aside

__all__ = ["set_aside"]
