"""The operator, without I/O or clock: arrivals in, results, chunks to keep and counters out."""
