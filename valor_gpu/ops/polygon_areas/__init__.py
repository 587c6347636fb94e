"""Intersection over union of polygons, and their pairs for matching."""
