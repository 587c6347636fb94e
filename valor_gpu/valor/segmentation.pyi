"""The evaluation of segmentations of Valor, for type checkers and editors."""

from valor_gpu.compat.valor.segmentation import *  # noqa: F403
