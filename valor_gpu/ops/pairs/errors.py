"""Messages for stored pairs that cannot be assigned. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import (
    PAIR_CLASS,
    PAIR_COUNT,
    PAIR_GROUND_TRUTH,
    PAIR_OFFSETS,
    PAIR_ORDER,
    PAIR_SIMILARITY,
    describe_box,
    unpack_box,
)


def describe(code: int, batch: MatchBatch) -> str:
    """Returns the message of an error code of a batch whose values are at hand: the column, the row, what came."""
    image, row, kind = unpack_box(code)
    if kind < PAIR_OFFSETS or batch.pairs is None:
        return describe_box(code)
    detection = int(batch.lengths[0][:image].sum()) + row
    begin, end = (int(batch.pairs.offsets[detection + i]) for i in (0, 1))
    count, total = int(batch.pairs.counts[detection]), len(batch.pairs.similarities)
    if kind == PAIR_OFFSETS:
        return (
            f"pairs.offsets[{detection}] and the next must ascend and lie between 0 and {total}, the number of pairs,"
            f" but are {begin} and {end}"
        )
    valid = int((batch.lengths[1] if batch.gt_counts is None else batch.gt_counts)[image])
    if kind == PAIR_COUNT:
        return (
            f"pairs.counts[{detection}] must lie between 0 and {min(end - begin, valid)} ({end - begin} entries of"
            f" room, {valid} ground truths) but is {count}"
        )
    return _describe_entry(kind, batch, (image, valid), detection, range(begin, begin + count))


def _describe_entry(
    kind: int, batch: MatchBatch, where: tuple[int, int], detection: int, entries: Sequence[int]
) -> str:
    """The message of the first bad entry of a detection, in an image of so many ground truths."""
    assert batch.pairs is not None
    positions, similarities = batch.pairs.ground_truths, batch.pairs.similarities
    image, valid = where
    place = f"(detection {detection}, image {image} of the batch)"
    if kind == PAIR_SIMILARITY:
        entry = next(e for e in entries if similarities[e] != similarities[e])
        return f"pairs.similarities[{entry}] must not be NaN {place}"
    if kind == PAIR_ORDER:
        entry = next(e for d, e in pairwise(entries) if not _before(positions, similarities, d, e))
        return (
            f"pairs.similarities[{entry}] must follow a larger one, or an equal one of a later ground truth, but is"
            f" {float(similarities[entry])} of ground truth {int(positions[entry])} after"
            f" {float(similarities[entry - 1])} of ground truth {int(positions[entry - 1])} {place}"
        )
    if kind == PAIR_GROUND_TRUTH:
        entry = next(e for e in entries if not 0 <= positions[e] < valid)
        return (
            f"pairs.ground_truths[{entry}] must lie between 0 and {valid - 1}, a position in the image, but is"
            f" {int(positions[entry])} {place}"
        )
    assert kind == PAIR_CLASS
    label, first = _value(batch.labels, detection), int(batch.lengths[1][:image].sum())
    entry = next(e for e in entries if _value(batch.gt_labels, first + int(positions[e])) != label)
    other = _value(batch.gt_labels, first + int(positions[entry]))
    return f"pairs.ground_truths[{entry}] must have label {label} as the detection does but has label {other} {place}"


def _before(positions: Any, similarities: Any, first: int, second: int) -> bool:
    """Whether entry ``first`` may stand before entry ``second``."""
    larger = similarities[first] > similarities[second]
    return bool(larger or (similarities[first] == similarities[second] and positions[first] > positions[second]))


def _value(column: Sequence[Any], row: int) -> int:
    """Row ``row`` of a column, in one array or one for each image."""
    for part in column:
        if row < len(part):
            return int(part[row])
        row -= len(part)
    raise IndexError(row)
