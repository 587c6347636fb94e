# fmt: off
"""Metrics of the numbers of one batch. See the class of each for its definition.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""


__all__: list[str]
