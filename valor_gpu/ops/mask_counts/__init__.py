"""Pixels of labelled masks of two sides, over NumPy arrays."""
