"""Targets of classification as kernels read them."""
