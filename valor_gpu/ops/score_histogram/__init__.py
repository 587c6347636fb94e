"""Histograms of scores at thresholds."""
