"""Pixel counts of one-hot masks."""
