"""Whole-number sums over the ranks of pairs of columns."""
