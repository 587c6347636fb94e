"""Counts of outcomes of decisions."""
