"""Weights of resampled units, from a counter-based generator: the same bits for any order, device and portion.

Philox 4x32-10: key = seed; counter = (block, attempt, replicate, kind). A block gives four words. Draw ``4 b + i`` of
a replicate is word ``i`` of block ``b``, made a number below n by Lemire's method; a word that would bias it is
replaced by that of the next attempt.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); Lemire, "Fast random integer generation in
an interval" (2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.stats._draws_cpu import DrawsCall, draw_cells, draw_weights

KINDS = ("multinomial", "half", "delete", "swap")
"""Draws with replacement; half of the units without; all units but a share (the jackknife of groups); one unit of each
pair, where unit d of one model and unit d of another, which stand behind them, are pair d."""
_STREAMS = {"multinomial": 0, "half": 1, "delete": 2, "swap": 4}
SPLITS = 3
"""Kind in the counters of draws that split units in two once, which are no replicates."""

_SEED = (1 << 64) - 1
_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_BITS = 128
"""Bits of a block: each says which unit of a pair is drawn."""
_MOST = 255
"""Largest weight of a unit: weights are uint8."""


def philox(counter: NDArray[np.uint32], seed: int) -> NDArray[np.uint32]:
    """Computes the words of counters, uint32 ``[..., 4]``, under the key ``seed`` (64 bits)."""
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        high, low = zip(
            *(
                (product >> np.uint64(32), product & _LOW)
                for product in (_MULTIPLIERS[0] * c[0], _MULTIPLIERS[1] * c[2])
            )
        )
        c = [high[1] ^ c[1] ^ np.uint64(key[0]), low[1], high[0] ^ c[3] ^ np.uint64(key[1]), low[0]]
        key = [(k + w) & 0xFFFFFFFF for k, w in zip(key, _WEYL)]
    return np.stack(c, -1).astype(np.uint32)


@frozen
class Draws:
    """Replicates ``first`` to ``first + count`` of a resampling of units.

    Attributes:
        units: U, in the order of their keys.
        count: L, replicates of this portion.
        first: number of the first of them.
        seed: 64 bits.
        kind: of :data:`KINDS`.
        groups: of ``delete``: replicate g leaves out the g-th of so many shares of the units.
        clusters: int64 ``[U]`` codes 0 .. C - 1: clusters are drawn, and each unit has the weight of its cluster; None:
            units are.
    """

    units: int
    count: int
    first: int = 0
    seed: int = 0
    kind: str = "multinomial"
    groups: int = 0
    clusters: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.drawn >= 1 << 32:
            raise InputError(f"there must be fewer than 2**32 units to draw from but there are {self.drawn:,}")
        if self.kind == "swap" and self.drawn % 2:
            raise InputError(f"units to swap must come in pairs but there are {self.drawn:,}")

    @property
    def drawn(self) -> int:
        """What is drawn: units, or clusters."""
        return self.units if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    def array(self) -> NDArray[np.uint8]:
        """Returns the weights, uint8 ``[U, L]``.

        Raises:
            InputError: a unit is drawn more than 255 times.
        """
        weights = draw_weights(self._call()) if self._native() else None
        if weights is None:
            weights = self.defined()
        return weights if self.clusters is None else weights[self.clusters]

    def cells(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns resampled counts, int64 ``[cells, L]``, of a table of counts; no memory grows with the units.

        Units of a cell are alike, and ordered by their cell: the counts are those of :meth:`array`, summed by cell.

        Args:
            counts: int64 ``[cells]`` whose sum is U.

        Raises:
            InputError: the sum is another, a count is negative, or there are clusters, which counts do not know.
        """
        if self.clusters is not None:
            raise InputError("clusters must be None where counts are drawn: they do not say which units they are of")
        if (counts < 0).any() or counts.sum() != self.units:
            raise InputError(
                f"counts must be at least 0 and add up to {self.units} units but the sum is {counts.sum()}"
            )
        return draw_cells(self._call(), counts) if self._native() else self._defined_cells(counts)

    def defined(self) -> NDArray[np.uint8]:
        """The definition of weights ``[drawn, L]``."""
        makers = {
            "multinomial": self._multinomial,
            "half": self._half,
            "delete": self._delete,
            "swap": self._swap,
        }
        return makers[self.kind]()

    def _native(self) -> bool:
        """Whether C++ draws: bits of pairs are cheap, and numpy alone has them."""
        return self.kind != "swap" and native.usable("valor_cpu")

    def _call(self) -> DrawsCall:
        kind = KINDS.index(self.kind)
        return DrawsCall(self.drawn, self.count, self.first, self.seed & _SEED, kind, self.groups)

    def _defined_cells(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        ends = np.cumsum(counts)
        found = np.empty((len(counts), self.count), np.int64)
        for row in range(self.count):
            times = Draws(self.units, 1, self.first + row, self.seed, self.kind, self.groups)._times()
            sums = np.concatenate(([0], np.cumsum(times[:, 0])))
            found[:, row] = sums[ends] - sums[ends - counts]
        return found

    def _times(self) -> NDArray[np.int64]:
        """How often each unit is drawn, of any size."""
        return self._bincounts() if self.kind == "multinomial" else self.defined().astype(np.int64)

    def _words(self, blocks: int, replicate: int, attempt: int = 0) -> NDArray[np.uint32]:
        counter = np.empty((blocks, 4), np.uint32)
        counter[:, 0], counter[:, 1] = np.arange(blocks), attempt
        counter[:, 2], counter[:, 3] = replicate, _STREAMS[self.kind]
        return philox(counter, self.seed).reshape(-1)

    def _bincounts(self) -> NDArray[np.int64]:
        n = self.drawn
        times = np.zeros((n, self.count), np.int64)
        for column in range(self.count if n else 0):
            times[:, column] = np.bincount(self._drawn_units(n, self.first + column), minlength=n)
        return times

    def _multinomial(self) -> NDArray[np.uint8]:
        times = self._bincounts()
        if times.max(initial=0) > _MOST:
            raise InputError(
                f"a unit must be drawn at most {_MOST} times but was drawn {times.max()} times: take another seed"
            )
        return times.astype(np.uint8)

    def _drawn_units(self, n: int, replicate: int) -> NDArray[np.int64]:
        least, attempt = (1 << 32) % n, 0
        products = self._words(-(-n // 4), replicate)[:n].astype(np.uint64) * np.uint64(n)
        while (again := (products & _LOW) < least).any():
            attempt += 1
            products[again] = self._words(-(-n // 4), replicate, attempt)[:n][again].astype(np.uint64) * np.uint64(n)
        return (products >> np.uint64(32)).astype(np.int64)

    def _ranks(self, n: int, replicate: int) -> NDArray[np.int64]:
        """Ranks of the units in a random order: by 64-bit keys, equal ones by unit."""
        words = self._words(-(-n // 2), replicate)[: 2 * n].astype(np.uint64).reshape(-1, 2)
        ranks = np.empty(n, np.int64)
        ranks[np.argsort(words[:, 0] << np.uint64(32) | words[:, 1], kind="stable")] = np.arange(n)
        return ranks

    def _half(self) -> NDArray[np.uint8]:
        n = self.drawn
        columns: Any = [self._ranks(n, self.first + column) < n // 2 for column in range(self.count)]
        return np.stack(columns, 1).astype(np.uint8) if columns else np.zeros((n, 0), np.uint8)

    def _delete(self) -> NDArray[np.uint8]:
        shares = self._ranks(self.drawn, 0) % self.groups
        kept: NDArray[np.bool_] = shares[:, None] != self.first + np.arange(self.count)
        return kept.astype(np.uint8)

    def _swap(self) -> NDArray[np.uint8]:
        """Bit ``d`` of a replicate, from the least of its first word: 1 draws the second of pair ``d``."""
        pairs = self.drawn // 2
        blocks = -(-pairs // _BITS)
        counter = np.zeros((self.count, blocks, 4), np.uint32)
        counter[..., 0], counter[..., 2] = np.arange(blocks), self.first + np.arange(self.count)[:, None]
        counter[..., 3] = _STREAMS["swap"]
        octets = philox(counter, self.seed).astype("<u4").reshape(self.count, 4 * blocks).view(np.uint8)
        bits = np.unpackbits(octets, axis=1, count=pairs, bitorder="little").T
        return np.concatenate((1 - bits, bits))
