"""Counts of panoptic segmentations."""
