"""Counts of labels, of pairs of labels and of top classes."""
