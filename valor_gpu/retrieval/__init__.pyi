# fmt: off
"""Metrics of retrieval: how well documents are ranked for each query.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""


__all__: list[str]
