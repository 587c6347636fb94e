"""Exact sums over pairs of numbers."""
