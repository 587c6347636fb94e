"""Boundaries of dense masks."""
