"""Comparisons of runs as pages show them."""
