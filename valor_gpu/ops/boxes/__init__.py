"""Intersection over union of axis-parallel boxes."""
