"""Intersection over union of rotated boxes, and their pairs for matching."""
