# fmt: off
"""Metrics of regression: errors and correlations of numbers, distances of vectors and distributions, and forecasts.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""


__all__: list[str]
