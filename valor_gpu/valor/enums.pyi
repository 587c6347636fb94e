"""The enumerations of Valor, for type checkers and editors."""

from valor_gpu.compat.valor.enums import *  # noqa: F403
