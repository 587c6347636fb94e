"""Polygons drawn as masks."""
