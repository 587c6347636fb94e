"""Rows of a run as pages show them: which ones, in which order, what people say of them, and their traces."""
