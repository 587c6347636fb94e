"""Predicted classes and confusion counts from scores."""
