"""Pairs of run-length encoded masks for matching."""
