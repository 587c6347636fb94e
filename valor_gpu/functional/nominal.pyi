# fmt: off
"""Agreement about the categories of one batch. See the class of each for its definition.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.nominal import fleiss_kappa as fleiss_kappa

__all__: list[str]
