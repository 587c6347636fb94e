"""Pairs of axis-parallel boxes for matching."""
