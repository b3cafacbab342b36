"""The papers' experiments, re-run with the operator that ships."""
