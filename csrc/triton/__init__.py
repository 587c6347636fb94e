"""Triton kernels for dense work. Nothing here is imported before a CUDA tensor needs it."""
