"""Detections by descending score, and what each score threshold keeps of them, also in resampled images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Bools, Floats, Ints, Matching, Rows
from valor_gpu.errors import InputError
from valor_gpu.reduce.resampled_detection import cluster_codes
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled, holders
from valor_gpu.stats.row_hashes import row_hashes
from valor_gpu.stats.units import Units, units_with_ids

_SUMS = (np.uint16, np.uint32, np.uint64)
_NUMBERS_AT_A_TIME = 1 << 20  # running counts of a portion of replicates: 4 MB, or of 16 replicates
_LEAST_AT_A_TIME, _MOST_AT_A_TIME = 16, 64


class Weights:
    """Weights of images in L replicates, of which several are added at a time: side by side in words of 64 bits.

    Args:
        weights: uint8 ``[U, L]``.
    """

    def __init__(self, weights: NDArray[np.uint8]) -> None:
        self._weights, self._largest = weights, int(weights.max(initial=0))
        self._words: dict[Any, NDArray[np.uint64]] = {}

    def sums(self, images: Ints, ends: Ints) -> Ints:
        """Returns the sums of the weights of the first ``ends`` images, int64 ``[L, E]``."""
        kind = next(kind for kind in _SUMS if self._largest * len(images) <= np.iinfo(kind).max)
        words = self._packed(kind)
        if not len(images):
            return np.zeros((self._weights.shape[1], len(ends)), np.int64)
        running = np.take(words, images, axis=1)
        np.cumsum(running, axis=1, out=running)
        words_at = np.ascontiguousarray(running[:, ends - 1] * (ends > 0))
        lanes = words_at.view(kind).reshape(len(words), len(ends), -1).transpose(0, 2, 1).reshape(-1, len(ends))
        return np.asarray(lanes[: self._weights.shape[1]], np.int64)

    def weighted(self, images: Ints, values: Floats) -> Floats:
        """Returns the values of images times the weights of these, float64 ``[L, n]``."""
        found: Floats = np.take(self._rows, images, axis=1) * values
        return found

    @cached_property
    def _rows(self) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._weights.T)

    def _packed(self, kind: Any) -> NDArray[np.uint64]:
        """Words ``[W, U]``, each with the weights of as many replicates as numbers of a kind fit in."""
        if kind not in self._words:
            units, lanes = self._weights.shape
            side = 8 // np.dtype(kind).itemsize
            wide = np.zeros((units, -(-lanes // side) * side), kind)
            wide[:, :lanes] = self._weights
            self._words[kind] = np.ascontiguousarray(wide.view(np.uint64).T)
        return self._words[kind]


@frozen
class Kept:
    """Counts of kept detections at the thresholds of a ranking; L replicates stand first where images are resampled.

    Attributes:
        tp: int ``[..., G]``, true positives at or above each threshold.
        fp: int ``[..., G]``, false positives.
        positives: int ``[...]``, ground truths that count.
        losses: float64 ``[..., G]``, sums of the losses of the true positives; None where none were asked for.
    """

    tp: NDArray[Any]
    fp: NDArray[Any]
    positives: Any
    losses: Floats | None = None


@frozen
class Ranking:
    """Detections of one class, or of all, by descending score; G thresholds, the distinct scores with a true positive.

    No other threshold is the best for any purpose: to lower it to a score without a true positive adds errors alone.

    Attributes:
        scores: float64 ``[n]``, descending; detections that are neither true nor false positives are left out.
        hits: bool ``[n]``, true positives; others are false positives.
        images: int64 ``[n]``, positions of images.
        gt_images: int64 ``[N]``, the image of each ground truth that counts.
        losses: float64 ``[n]``, 1 - IoU of true positives; None where IoUs are not known.
    """

    scores: Floats
    hits: Bools
    images: Ints
    gt_images: Ints
    losses: Floats | None = None

    @cached_property
    def thresholds(self) -> Floats:
        """float64 ``[G]``, descending."""
        return self.scores[self._ends - 1]

    @cached_property
    def below(self) -> Floats:
        """float64 ``[G]``: the highest score that each threshold leaves out, NaN where it leaves out none."""
        return np.append(self.scores, np.nan)[self._ends]

    @cached_property
    def _ends(self) -> Ints:
        """int64 ``[G]``: how many detections each threshold keeps."""
        last = np.flatnonzero(np.append(self.scores[1:] != self.scores[:-1], True)[: len(self.scores)])
        hits = self.hits.cumsum()[last]
        return last[np.diff(hits, prepend=0) > 0] + 1

    @cached_property
    def _hit_ends(self) -> Ints:
        return self.hits.cumsum()[self._ends - 1]

    @cached_property
    def _images_of(self) -> tuple[Ints, Ints]:
        """The images of true positives, and of false positives above the lowest of them."""
        end = int(self._ends[-1]) if len(self._ends) else 0
        hits = self.hits[:end]
        return self.images[:end][hits], self.images[:end][~hits]

    def kept(self, weights: Weights | None = None) -> Kept:
        """Counts what each threshold keeps.

        Args:
            weights: how often each image counts in each replicate; None: each once.
        """
        ends, losses = self._hit_ends, None if self.losses is None else self.losses[self.hits]
        if weights is None:
            sums = None if losses is None else losses.cumsum()[ends - 1]
            return Kept(ends, self._ends - ends, len(self.gt_images), sums)
        hit_images, fp_images = self._images_of
        if losses is not None:
            losses = np.cumsum(weights.weighted(hit_images, losses), axis=1)[:, ends - 1]
        positives = weights.sums(self.gt_images, np.array([len(self.gt_images)]))[:, 0]
        return Kept(weights.sums(hit_images, ends), weights.sums(fp_images, self._ends - ends), positives, losses)


def rankings_of(matching: Matching) -> tuple[Ranking, list[Ranking]]:
    """Returns the ranking of all detections, and that of each class."""
    rows = matching.rows
    judged = np.flatnonzero(matching.hits | matching.false_positives)
    judged = judged[np.argsort(-rows.scores[judged], kind="stable")]
    counted = np.flatnonzero(rows.gt_counts)
    losses = None if matching.ious is None else 1 - matching.ious

    def ranking(detections: Ints, truths: Ints) -> Ranking:
        own = None if losses is None else losses[detections]
        return Ranking(
            rows.scores[detections], matching.hits[detections], rows.images[detections], rows.gt_images[truths], own
        )

    classes = len(rows.classes)
    sides = _by_class(judged, rows.labels, classes), _by_class(counted, rows.gt_labels, classes)
    return ranking(judged, counted), [ranking(*each) for each in zip(*sides)]


def _by_class(places: Ints, labels: Ints, classes: int) -> list[Ints]:
    """The places of each class, in their order."""
    short = labels[places].astype(np.uint16 if classes <= 1 << 16 else np.int64)  # numpy sorts 16 bits by radix
    ends = np.bincount(short, minlength=classes).cumsum()[:-1]
    return np.split(places[np.argsort(short, kind="stable")], ends)[:classes]


class ResampledRankings(Resampled):
    """Images of a matching, drawn anew; every replicate chooses its thresholds again.

    Args:
        matching: what the numbers came from.
        image_ids: see :class:`valor_gpu.analysis.base.Analysis`.
        numbers: computes numbers float64 ``[L]`` by their leaf names, from weights uint8 ``[U, L]`` of the images.
        by_class: names of the mappings whose numbers are of classes.
        longest: detections of the longest ranking.
        refused: reasons of numbers without an interval, by their leaf names.
    """

    family = "detection_class"
    unit = "images"

    def __init__(
        self,
        matching: Matching,
        image_ids: Sequence[Any] | None,
        numbers: Callable[[NDArray[np.uint8]], Mapping[str, Floats]],
        by_class: Sequence[str],
        longest: int,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self._rows, self._keys, self._numbers, self._by_class = matching.rows, image_ids, numbers, by_class
        self._refused = dict(refused or {})
        self.units = matching.rows.lengths.shape[1]
        self.chunk = min(_MOST_AT_A_TIME, max(_LEAST_AT_A_TIME, _NUMBERS_AT_A_TIME // max(longest, self.units, 1)))

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """See :class:`Resampled`."""
        return self._numbers(draws.array())

    def range_of(self, name: str) -> tuple[float, float]:
        """See :class:`Resampled`: ratios are within 0 and 1; thresholds and costs have no range."""
        ratio = not name.startswith(("score_threshold", "cost"))
        return (0.0, 1.0) if ratio else super().range_of(name)

    def supports(self, clusters: Ints | None = None) -> Mapping[str, int]:
        """See :class:`Resampled`."""
        rows = self._rows
        counts = holders(rows.gt_labels[rows.gt_counts], rows.gt_images[rows.gt_counts], len(rows.classes), clusters)
        return {f"{name}/{of}": count for name in self._by_class for of, count in zip(rows.classes, counts)}

    def refused(self) -> Mapping[str, str]:
        """See :class:`Resampled`."""
        return self._refused

    def identities(self) -> Units:
        """See :class:`Resampled`: images by their ids."""
        if self._keys is None:
            raise InputError(
                "a comparison needs images with ids but some have none: give every image of target an image_id"
            )
        return units_with_ids(self.unit, self._keys, _truths_of(self._rows))

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> Ints:
        """See :class:`Resampled`; a sequence is in the order of ascending ids."""
        return cluster_codes(given, self._keys, self.units)


def _truths_of(rows: Rows) -> Ints:
    """Hashes int64 ``[I]`` of the classes of the ground truths of each image, and of which of them count."""
    names = [hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest() for name in rows.classes]
    classes = np.array([int.from_bytes(name, "little", signed=True) for name in names], np.int64)
    found = np.zeros(rows.lengths.shape[1], np.int64)
    np.add.at(found, rows.gt_images, row_hashes(classes[rows.gt_labels], rows.gt_counts))  # in any order
    return found
