"""Labels: a key, a value and a score."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError, InputTypeError


@dataclass(unsafe_hash=True)
class Label:
    """A key, a value of that key and, in predictions, a score.

    Args:
        key: name of the attribute, for example ``animal``.
        value: what it is, for example ``cat``.
        score: any real number; kept as a float.

    Raises:
        InputTypeError: a key or a value that is no text, or a score that is no number.
        InputError: a score that no float holds.

    Example:
        >>> Label("animal", "cat") == Label("animal", "cat", score=0.5)
        False
    """

    key: str
    value: str
    score: float | None = None

    def __post_init__(self) -> None:
        if type(self.key) is not str or type(self.value) is not str:
            check_type("Label.key", self.key, str)
            check_type("Label.value", self.value, str)
        if self.score is not None and type(self.score) is not float:
            if not isinstance(self.score, Real):
                raise InputTypeError(f"Label.score must be a number or None but got {self.score!r}")
            try:
                self.score = float(self.score)
            except OverflowError:
                raise InputError("Label.score must be a number of at most 1.8e308 but got a larger one") from None
