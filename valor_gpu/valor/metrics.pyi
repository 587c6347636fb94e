"""The metric classes of Valor, for type checkers and editors."""

from valor_gpu.compat.valor.metrics import *  # noqa: F403
