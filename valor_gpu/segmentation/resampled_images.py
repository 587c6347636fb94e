"""Numbers of resampled images, from what is kept of each image. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.reduce.regions import mean_of_images
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Floats, Resampled, holders
from valor_gpu.stats.row_hashes import row_hashes
from valor_gpu.stats.units import Units

KEEP_IMAGES = "intervals need the counts of every image: make the metric with keep_images=True"
MAXIMUM = "a maximum over pixels is in it, whose interval no resampling gives"

_EXACT = 2.0**53  # up to here float64 holds every integer
_BLOCK = 2**20  # numbers of 8 bytes that are made at a time
_DIGIT = 24  # bits of a word of an exact mean: sums of 2^29 weights of such words are exact in float64


class Weights:
    """Weights of images in a portion of replicates, in the order of what is kept of them.

    Args:
        weights: uint8 ``[N, L]``.
    """

    def __init__(self, weights: NDArray[np.uint8]) -> None:
        self._weights = weights

    def sums(self, table: NDArray[Any]) -> NDArray[np.int64]:
        """Computes the weighted sums of counts, exact: int64 ``[L, ...]`` of integers of 0 or more ``[N, ...]``."""
        rows = table.reshape(len(table), math.prod(table.shape[1:]))
        found = self._product(rows)
        sums = found.astype(np.int64)
        # Sums of what is not negative only grow: where the last one is exact, so was each before it.
        large = np.flatnonzero(found.max(0, initial=0) >= _EXACT)
        if len(large):
            sums[:, large] = self._weights.T.astype(np.int64) @ rows[:, large].astype(np.int64)
        return sums.reshape(len(sums), *table.shape[1:])

    def means(self, values: Floats) -> Floats:
        """Computes the weighted means of what is not NaN, float64 ``[L, ...]`` of ``[N, ...]``.

        The sum is exact before it is rounded, as that of :func:`valor_gpu.reduce.regions.mean_of_images`.
        """
        rows = values.reshape(len(values), math.prod(values.shape[1:]))
        sums, scale, counts = self._exact_sums(rows)
        return _quotients(sums, scale, counts).reshape(len(counts), *values.shape[1:])

    def means_of_all(self, values: Floats) -> Floats:
        """Computes the weighted means of all that is not NaN: float64 ``[L]`` of ``[N, K]``."""
        sums, scale, counts = self._exact_sums(values)
        return _quotients(sums.sum(1), scale, counts.sum(1))

    def repeated(self, rows: Floats) -> Iterator[Floats]:
        """Yields the rows of each replicate, each as often as it was drawn."""
        for column in self._weights.T:
            yield np.repeat(rows, column, axis=0)

    def _product(self, rows: NDArray[Any]) -> Floats:
        """Weighted sums ``[L, K]`` in float64, a few megabytes of rows at a time."""
        found = np.zeros((self._weights.shape[1], rows.shape[1]))
        step = max(1, _BLOCK // max(1, *found.shape))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            found += self._weights[part].T.astype(np.float64) @ rows[part].astype(np.float64)
        return found

    def _exact_sums(self, values: Floats) -> tuple[Any, Fraction, Floats]:
        """The sums of what is not NaN, as integers of Python ``[L, K]``, times what, and of how many numbers.

        Each number is cut into words of 24 bits, which are added as integers.
        """
        known = ~np.isnan(values)
        rows = np.where(known, values, 0.0)
        exponent = int(np.frexp(np.abs(rows).max(initial=0.0))[1])
        rest, words = np.ldexp(rows, -exponent), 0
        total: Any = np.zeros((self._weights.shape[1], rows.shape[1]), object)
        while rest.any():
            rest = np.ldexp(rest, _DIGIT)
            word = np.trunc(rest)
            rest, words = rest - word, words + 1
            total = total * (1 << _DIGIT) + self._product(word).astype(np.int64).astype(object)
        return total, Fraction(2) ** (exponent - _DIGIT * words), self._product(known)


class EachImage(Weights):
    """Weights of as many replicates as images, each of one image alone; without a table of them."""

    def __init__(self) -> None:
        pass

    def sums(self, table: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the counts of every image: int64 ``[N, ...]``."""
        return table.astype(np.int64)

    def means(self, values: Floats) -> Floats:
        """Returns the values of every image: float64 ``[N, ...]``."""
        return values.astype(np.float64)

    def means_of_all(self, values: Floats) -> Floats:
        """Computes the mean of what is not NaN of every image: float64 ``[N]`` of ``[N, K]``."""
        return mean_of_images(values.T)

    def repeated(self, rows: Floats) -> Iterator[Floats]:
        """Yields the row of every image."""
        return iter(rows[:, None])


def _quotients(sums: Any, scale: Fraction, counts: Floats) -> Floats:
    """Sums, rounded once, by counts; NaN where a count is 0."""
    up, down = scale.numerator, scale.denominator  # powers of 2
    rounded = np.array([int(number) * up / down for number in sums.reshape(-1).tolist()], np.float64).reshape(
        sums.shape
    )
    means: Floats = np.divide(rounded, counts, out=np.full(counts.shape, math.nan), where=counts > 0)
    return means


class ResampledImages(Resampled):
    """What a metric keeps of each image.

    Args:
        family: of the numbers: ``pixels`` or ``panoptic``, whose counts are added up, or ``rows``: means of images.
        keys: array ``[N, ...]`` of what is kept of each image, by whose bytes the images are ordered: equal ones are
            alike; or the id of every image.
        numbers: gives the numbers of replicates, of weights in the order of ``keys`` and of ``tables``.
        supports: names of numbers that need images that hold a truth of them, in each group for the columns of
            ``present``.
        present: bool ``[N, C]``, whether an image holds a truth of a class.
        refused: reasons of all numbers, by their names, where none has an interval.
        rows: begin of the names of numbers of the family ``rows``; None: the family is that of all.
        largest: value that the numbers can have; the least is 0.
        outcomes: what else is told of each image beside its numbers, names to columns ``[N]``.
        tables: arrays ``[N, ...]`` of what is kept of each image, which ``numbers`` takes.
        truths: array ``[N, ...]`` of what is kept of the ground truth of each image; None: nothing is.
    """

    unit = "images"

    def __init__(
        self,
        family: str,
        keys: NDArray[Any] | Sequence[Any],
        numbers: Callable[..., Mapping[str, Floats]],
        supports: Sequence[Sequence[str]] = (),
        present: NDArray[np.bool_] | None = None,
        refused: Mapping[str, str] | None = None,
        rows: str | None = None,
        largest: float = 1.0,
        outcomes: Mapping[str, NDArray[Any]] | None = None,
        tables: Sequence[NDArray[Any]] = (),
        truths: NDArray[Any] | None = None,
    ) -> None:
        self.family, self.units, self._rows, self._largest = family, len(keys), rows, largest
        self._keys, self._numbers = keys, numbers
        self._supports, self._present, self._refused = supports, present, dict(refused or {})
        self.outcomes = dict(outcomes or {})
        self._tables, self._truths = tables, truths

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates; none without images, or where none has an interval."""
        if not self.units or self._refused:
            return {}
        weights = np.empty((self.units, draws.count), np.uint8)
        weights[self._order] = draws.array()
        return self.weighted(weights)

    @property
    def ids(self) -> Sequence[Any] | None:
        """Ids of the images in the order in which they are kept; None where they have none."""
        return None if isinstance(self._keys, np.ndarray) else self._keys

    def weighted(self, weights: NDArray[np.uint8]) -> Mapping[str, Floats]:
        """Computes the numbers of images that stand as often as they weigh.

        Args:
            weights: uint8 ``[N, L]``, in the order in which the images are kept.

        Returns:
            Names to float64 ``[L]``.
        """
        return self._numbers(Weights(weights), *self._tables)

    def of_each(self) -> Mapping[str, Floats]:
        """Computes the numbers of every image alone.

        Returns:
            Names to float64 ``[N]``; without the means over images, which of one image are no other numbers.
        """
        found = self._numbers(EachImage(), *self._tables) if self.units else {}
        return {name: values for name, values in found.items() if self._rows is None or self.family_of(name) != "rows"}

    def subset(self, images: NDArray[np.int64]) -> ResampledImages:
        """Returns some of the images, to be drawn anew.

        Args:
            images: ascending places in the order in which the images are kept.
        """
        keys = self._keys
        return self._of(
            keys[images] if isinstance(keys, np.ndarray) else [keys[place] for place in images.tolist()],
            [table[images] for table in self._tables],
            None if self._present is None else self._present[images],
            None if self._truths is None else self._truths[images],
        )

    def identities(self) -> Units:
        """See :class:`Resampled`: images by their ids, or by the order in which they arrived."""
        ids, order = self.ids, self._order
        truths = None if self._truths is None else row_hashes(self._truths)[order]
        ranks = np.array(self._ranks, np.int64)[order]
        named = None if ids is None else [ids[image] for image in order.tolist()]
        names = next(iter(self._supports), ())
        classes: dict[Hashable, str] = {place: name.partition("/")[2] for place, name in enumerate(names)}
        return Units(self.unit, named, order, self.units, ranks, truths, classes=classes)

    def swapping(self, other: Resampled) -> Resampled | None:
        """See :class:`Resampled`; there are no scores, and sums do not depend on the order of images."""
        if not isinstance(other, ResampledImages) or not self._tables:
            return None
        pairs = zip(self._in_order(), other._in_order(), strict=True)
        *tables, present = (None if a is None else np.concatenate((a, b)) for a, b in pairs)
        return self._of(np.arange(self.units + other.units), tables, present, None)

    def _in_order(self) -> list[Any]:
        """The tables, and which image holds a truth of a class, in the order of the units."""
        return [None if table is None else table[self._order] for table in (*self._tables, self._present)]

    def _of(self, keys: Any, tables: Sequence[Any], present: Any, truths: Any) -> ResampledImages:
        """The same numbers of other images."""
        return ResampledImages(
            self.family, keys, self._numbers, self._supports, present, self._refused, self._rows, self._largest,
            tables=tables, truths=truths,
        )  # fmt: skip

    def family_of(self, name: str) -> str:
        """Returns the family of a number."""
        return self.family if self._rows is None or not name.startswith(self._rows) else "rows"

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that a number can have."""
        return 0.0, self._largest

    def supports(self, clusters: NDArray[np.int64] | None = None) -> Mapping[str, int]:
        """Returns how many images, or clusters of them, hold a truth of a number."""
        if self._present is None:
            return {}
        present = self._present if clusters is None else self._present[self._order]
        classes, images = np.nonzero(present.T)
        counts = holders(classes, images, present.shape[1], clusters)
        return {name: count for group in self._supports for name, count in zip(group, counts)}

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no interval."""
        return self._refused

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the images, in the order of their keys.

        Args:
            given: of images with ids a mapping of the id to the cluster; of others the cluster of every image, in the
                order of arrival, those of the first rank first.

        Raises:
            InputError: an image has no cluster, an id is of no image, or a mapping is given where images have no ids.
        """
        found = self._given(given)
        # Images with equal keys may be of two clusters: their names decide then, not which of them came first.
        names = {each: (type(each).__name__, str(each)) for each in found}
        first: dict[Any, int] = {}
        for image in self._order.tolist():
            first.setdefault(found[image], self._ranks[image])
        ordered = sorted(first, key=lambda each: (first[each], names[each]))
        codes = {each: code for code, each in enumerate(ordered)}
        return np.array([codes[found[image]] for image in self._order.tolist()], np.int64)

    def _given(self, given: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
        """The cluster of every image, in the order of arrival."""
        ids = self.ids
        if not isinstance(given, Mapping):
            if len(given) != self.units:
                raise InputError(f"clusters must have the cluster of each of {self.units} images but has {len(given)}")
            return list(given)
        if ids is None:
            raise InputError(
                "clusters must be a sequence with the cluster of every image in their order but is a mapping: the"
                " metric knows no ids of images"
            )
        texts = {str(image): cluster for image, cluster in given.items()}
        missing = [image for image in ids if str(image) not in texts]
        if missing:
            raise InputError(f"clusters must have every image but {len(missing)} are missing, such as {missing[0]!r}")
        if len(texts) > len(known := {*map(str, ids)}):
            unknown = [image for image in texts if image not in known]
            raise InputError(f"clusters must have no other image but have {len(unknown)}, such as {unknown[0]!r}")
        return [texts[str(image)] for image in ids]

    @cached_property
    def _sortable(self) -> list[Any]:
        keys = self._keys
        if not isinstance(keys, np.ndarray):
            return [(str(each), type(each).__name__) for each in keys]
        if keys.dtype.kind == "f":  # one NaN and one 0, whichever device made them
            keys = np.where(np.isnan(keys), math.nan, keys) + 0.0
        wide = np.ascontiguousarray(keys.reshape(len(keys), math.prod(keys.shape[1:])))
        return [row.tobytes() for row in wide.astype(wide.dtype.newbyteorder(">"), copy=False)]

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """The images by their keys."""
        keys = self._sortable
        return np.array(sorted(range(self.units), key=keys.__getitem__), np.int64)

    @cached_property
    def _ranks(self) -> list[int]:
        """The place of the first image with an equal key, of every image."""
        keys, places = self._sortable, dict[Any, int]()
        for place, image in enumerate(self._order.tolist()):
            places.setdefault(keys[image], place)
        return [places[key] for key in keys]


def by_place(name: str, values: Floats) -> dict[str, Floats]:
    """Returns numbers of the classes ``[L, C]`` by their names in a result, ``name/0`` and so on.

    Example:
        >>> sorted(by_place("per_class", np.zeros((5, 2))))
        ['per_class/0', 'per_class/1']
    """
    return {f"{name}/{place}": values[:, place] for place in range(values.shape[1])}


def by_class(name: str, present: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the arguments ``supports`` and ``present`` for numbers with the names of :func:`by_place`."""
    return {"supports": [[f"{name}/{place}" for place in range(present.shape[1])]], "present": present}


def no_images() -> Resampled:
    """Raises :class:`InputError`, in place of the state of a metric that keeps sums over images."""
    raise InputError(KEEP_IMAGES)
