"""Evaluation of detections: the names of valor_core, which raise an error."""

from __future__ import annotations

from typing import Any, NoReturn

from valor_gpu.valor.exceptions import NotSupportedError

_MISSING = "{} of valor_core: detection is not implemented yet; valor_gpu.detection.MeanAveragePrecision is"


def evaluate_detection(*args: Any, **choices: Any) -> NoReturn:
    """Raises an error: Valor's evaluation of detections is not implemented yet.

    Args:
        args: as valor_core takes them.
        choices: keyword arguments, as valor_core takes them.

    Raises:
        NotSupportedError: always.
    """
    raise NotSupportedError(_MISSING.format("evaluate_detection"))


class ValorDetectionManager:
    """Raises an error when it is made: Valor's evaluation of detections is not implemented yet.

    Args:
        args: as valor_core takes them.
        choices: keyword arguments, as valor_core takes them.

    Raises:
        NotSupportedError: always.
    """

    def __init__(self, *args: Any, **choices: Any) -> None:
        raise NotSupportedError(_MISSING.format("ValorDetectionManager"))
