"""The evaluation of generated text of Valor, for type checkers and editors."""

from valor_gpu.compat.valor.text_generation import *  # noqa: F403
