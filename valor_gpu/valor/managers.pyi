"""The managers of Valor, for type checkers and editors."""

from valor_gpu.compat.valor.managers import *  # noqa: F403
