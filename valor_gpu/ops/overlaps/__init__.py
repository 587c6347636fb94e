"""Detections against ground truths by overlap, without matching one to one."""
