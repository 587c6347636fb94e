"""Saved results of images and classes as pages show them."""
