"""Weights of resampled units."""
