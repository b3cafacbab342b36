"""Selections of all queries, evaluated once per row: they give each row its class."""

from muntin.core.selections.selections import Classes, Selections, per_class, query_bits, query_flags, routes, slicing

__all__ = ["Classes", "Selections", "per_class", "query_bits", "query_flags", "routes", "slicing"]
