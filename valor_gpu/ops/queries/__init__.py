"""Ranked documents of queries: their order, and one score per query."""
