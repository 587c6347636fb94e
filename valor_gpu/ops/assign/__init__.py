"""Matching of detections to ground truths: the batch of images, its order, the op."""
