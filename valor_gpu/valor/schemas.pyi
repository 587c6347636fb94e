"""The objects of Valor, for type checkers and editors."""

from valor_gpu.compat.valor.schemas import *  # noqa: F403
