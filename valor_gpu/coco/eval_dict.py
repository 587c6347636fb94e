"""The dict behind ``COCOeval.eval``. No torch."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_T = TypeVar("_T")


class EvalDict(dict[str, Any]):
    """A dict whose ``precision`` and ``scores`` are computed when they are first looked at.

    For 1,203 classes the two take 233 MB, which the summary does not need. Pickled or copied it is a plain dict.

    Args:
        known: the keys that are there from the start; ``precision`` and ``scores`` hold their place in the order.
        build: gives the two arrays.
        last_precision: ``[T, R, K, A, 1]``, precision at the last max-detection limit, None when it is not known.
        chosen: what of which evaluation the arrays are made of, see :class:`valor_gpu.coco.accumulation.Source`.
        accumulated: the parameters of ``accumulate`` as they were then.

    Example:
        >>> e = EvalDict({"precision": None, "recall": 1.0, "scores": None}, lambda: (np.ones(1), np.zeros(1)), None)
        >>> e.pending, e["precision"].tolist(), e.pending
        (True, [1.0], False)
    """

    def __init__(
        self,
        known: Mapping[str, Any],
        build: Callable[[], tuple[Array, Array]],
        last_precision: Array | None,
        chosen: Any = None,
        accumulated: Any = None,
    ) -> None:
        super().__init__(known)
        self._build: Callable[[], tuple[Array, Array]] | None = build
        self._absent = {"precision", "scores"}
        self._last = last_precision
        self.chosen = chosen
        self.accumulated = accumulated

    @property
    def pending(self) -> bool:
        """Whether the arrays are still to be computed."""
        return bool(self._absent)

    @property
    def last_precision(self) -> Array | None:
        """``[T, R, K, A, 1]`` while ``precision`` is still to be computed, if it is known."""
        return self._last if "precision" in self._absent else None

    def _fill(self) -> None:
        if self._absent and self._build is not None:
            for key, value in zip(("precision", "scores"), self._build()):
                if key in self._absent:
                    super().__setitem__(key, value)
        self._absent, self._build, self._last = set(), None, None

    def _filled(self, method: Callable[..., _T], *args: Any) -> _T:
        self._fill()
        return method(*args)

    def __getitem__(self, key: str) -> Any:
        if key in self._absent:
            self._fill()
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._absent.discard(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._absent.discard(key)
        super().__delitem__(key)

    def __iter__(self) -> Iterator[str]:  # its presence makes dict(self) and {**self} read through __getitem__
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        """As ``dict.get``."""
        if key in self._absent:
            self._fill()
        return super().get(key, default)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """As ``dict.items``."""
        return self._filled(super().items)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """As ``dict.values``."""
        return self._filled(super().values)

    def copy(self) -> dict[str, Any]:
        """A plain dict."""
        return dict(self.items())

    def clear(self) -> None:
        """As ``dict.clear``."""
        self._absent = set()
        super().clear()

    def pop(self, key: str, *default: Any) -> Any:
        """As ``dict.pop``."""
        return self._filled(super().pop, key, *default)

    def popitem(self) -> tuple[str, Any]:
        """As ``dict.popitem``."""
        return self._filled(super().popitem)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As ``dict.setdefault``."""
        return self._filled(super().setdefault, key, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As ``dict.update``."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)
