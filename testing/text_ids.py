"""COCO and LVIS objects whose integer ids are replaced by texts in another order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

_LETTERS = ["a", "B", "é", "e\u0301", "ß", "日", "\U0001f600", " ", "0", "9", "10", "_", "/", '"', "\\", "\ud800"]
"""Letters of ids: of one to four bytes, in two normal forms, escaped in JSON, half of a surrogate pair."""


def words(rng: np.random.Generator, count: int) -> list[str]:
    """So many different texts in no order, some of which begin alike; the empty text is one of them."""
    found: dict[str, None] = {"": None}
    while len(found) < count:
        found["".join(rng.choice(_LETTERS, int(rng.integers(1, 6))))] = None
    listed = list(found)[: max(count, 1)]
    return [listed[place] for place in rng.permutation(len(listed))][:count]


def renamed(objects: tuple[Any, Any], seed: int, images: bool = True, categories: bool = True) -> tuple[Any, Any]:
    """A dataset and results with texts in place of ids of images, of categories, or both.

    Args:
        objects: the dataset and the results, which are not changed.
        seed: of the texts.
        images: whether ids of images are replaced.
        categories: whether those of categories are.
    """
    rng = np.random.default_rng(seed)
    dataset, results = copy.deepcopy(objects)
    image = _namer(rng, [each["id"] for each in dataset["images"]], images)
    category = _namer(rng, [each["id"] for each in dataset["categories"]], categories)
    for each in dataset["images"]:
        each["id"] = image(each["id"])
        for name in ("neg_category_ids", "not_exhaustive_category_ids"):
            if name in each:
                each[name] = [category(number) for number in each[name]]
    for each in dataset["categories"]:
        each["id"] = category(each["id"])
    for each in (*dataset["annotations"], *results):
        each.update(image_id=image(each["image_id"]), category_id=category(each["category_id"]))
    return dataset, results


def _namer(rng: np.random.Generator, ids: list[int], wanted: bool) -> Callable[[int], Any]:
    names = dict(zip(ids, words(rng, len(ids)))) if wanted else {}
    return lambda number: names.get(number, f"more {number}") if wanted else number
