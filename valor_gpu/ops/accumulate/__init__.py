"""Accumulation of matched records: their order, precision and recall, means over classes."""
