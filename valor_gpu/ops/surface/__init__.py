"""Distances between surfaces of masks."""
