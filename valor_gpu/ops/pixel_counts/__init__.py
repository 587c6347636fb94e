"""Pixel counts of label maps."""
