"""Pairs of a batch by any similarity: searched, stored, checked; shared by the geometries."""
