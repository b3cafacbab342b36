"""The command line. One module per command, each with `declare` (its arguments) and `execute` (what it does)."""
