"""Ids that are texts, in shards of COCO files: integers in states, texts in results.

A worker knows the texts of its shard alone. So an image goes by a hash of its id until all shards are merged; then its
place among all ids in ascending order takes the place of the hash, for that order decides between equal scores. A label
is the place of a category among those of its shard: shards that count together list the same categories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch

from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.inputs.text_ids import TextIds
from valor_gpu.metric import Metric
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Intervals

Texts = Mapping[str, Mapping[str, str]]
"""``image_id`` and ``category_id`` to what each number, as text, stands for; without those that are integers."""

TEXT_FIELDS = ("image_id", "category_id")
"""The keys of :data:`Texts`."""

M = TypeVar("M", bound=Metric[Any])
_COLUMNS: tuple[tuple[type, int, int], ...] = ((DetectionRecords, 0, 1), (OverlapRecords, 1, 0))
"""States whose table of images has ids, the column of ids, and the column of whether an image has one."""


def joined_texts(parts: Iterable[Texts]) -> Texts:
    """The texts of all shards."""
    whole: dict[str, dict[str, str]] = {}
    for part in parts:
        for name, texts in part.items():
            whole.setdefault(name, {}).update(texts)
    return whole


def in_order(metric: M, texts: Texts) -> M:
    """The metric with images by the places of their ids in place of hashes; it changes."""
    known = texts.get("image_id", {})
    found = [columns for kind, *columns in _COLUMNS if known and issubclass(type(metric.state()), kind)]
    if not found:
        return metric
    (ids, named), order = found[0], TextIds.of(known.values())
    places = dict(zip(map(int, known), order.codes(list(known.values())).tolist()))
    images = metric.state().images.clone()
    rows = images[:, named].nonzero()[:, 0]
    codes = [places.get(number, number) for number in images[rows, ids].tolist()]
    images[rows, ids] = torch.tensor(codes, dtype=torch.int64, device=images.device)
    changed: Any = metric
    changed.images = [images]
    return metric


def with_texts(result: Result, texts: Texts) -> Result:
    """The result with ids of categories in place of their labels, where it has numbers of each class."""
    names = texts.get("category_id", {})
    if not names:
        return result
    values = {
        name: {names.get(str(label), label): number for label, number in value.items()}
        if isinstance(value, Mapping) and value.keys() <= names.keys() else value
        for name, value in result.values.items()
    }  # fmt: skip
    intervals = Intervals(
        {_with_text(name, names): interval for name, interval in result.intervals.items()}, result.intervals.choices
    )
    return replace(result, values=values, intervals=intervals)


def _with_text(name: str, names: Mapping[str, str]) -> str:
    """The name of a number of a class with the text in place of the label."""
    whole, slash, label = name.rpartition("/")
    return f"{whole}/{names[label]}" if slash and label in names else name
