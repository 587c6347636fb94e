"""A state whose units are taken in another order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled


class ArrangedUnits(Resampled):
    """A state whose units are drawn in an order that is not its own.

    Args:
        state: the state.
        order: int64 ``[U]``: which of the units that are drawn each unit of the state is.
    """

    def __init__(self, state: Resampled, order: NDArray[np.int64]) -> None:
        self.family, self.unit, self.units, self.chunk = state.family, state.unit, state.units, state.chunk
        self._state, self._order = state, order

    def replicates(self, draws: Draws) -> Mapping[str, NDArray[np.float64]]:
        """See :class:`Resampled`."""
        codes = np.arange(self.units) if draws.clusters is None else draws.clusters
        return self._state.replicates(replace(draws, clusters=codes[self._order]))

    def family_of(self, name: str) -> str:
        """See :class:`Resampled`."""
        return self._state.family_of(name)

    def supports(self, clusters: NDArray[np.int64] | None = None) -> Mapping[str, int]:
        """See :class:`Resampled`."""
        return self._state.supports(None if clusters is None else clusters[self._order])

    def refused(self) -> Mapping[str, str]:
        """See :class:`Resampled`."""
        return self._state.refused()

    def portion_bytes(self) -> int:
        """See :class:`Resampled`."""
        return self._state.portion_bytes()

    def range_of(self, name: str) -> tuple[float, float]:
        """See :class:`Resampled`."""
        return self._state.range_of(name)
