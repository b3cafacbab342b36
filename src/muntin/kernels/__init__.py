"""Arrays in, arrays and counters out. The only place that imports numba and DuckDB."""
