# fmt: off
"""Metrics of categories without an order: how far raters agree.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.nominal.fleiss_kappa import FleissKappa as FleissKappa

__all__: list[str]
