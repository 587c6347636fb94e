"""Sums of the losses of tokens."""
