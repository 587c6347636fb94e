"""Evaluators: the table of metrics by name, computed metrics of texts, checks without a model, and the user's own."""
