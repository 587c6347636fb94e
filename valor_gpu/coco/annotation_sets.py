"""What an evaluation reads of COCO objects, ours or pycocotools': columns, images, names of categories. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import Dataset, columns_from_dataset
from valor_gpu.inputs.text_ids import Id


def columns_of(name: str, coco: Any, chosen: Any) -> Dataset:
    """Returns the columns of a COCO object; those that parameters ``chosen`` ask for are enough.

    Raises:
        InputError: there is no object, or it holds what is no COCO dataset.
    """
    if coco is None:
        raise InputError(f"{name} must be a COCO object but got None")
    if not hasattr(coco, "columns_for"):  # pycocotools'
        return columns_from_dataset(coco.dataset, name)
    columns: Dataset = (
        coco.columns if chosen is None else coco.columns_for(chosen.imgIds, chosen.catIds if chosen.useCats else ())
    )
    return columns


def image_objects(coco: Any) -> list[dict[str, Any]]:
    """Returns the image objects of a COCO object; ours reads them without making annotation objects of a file."""
    listed: list[dict[str, Any]] = (
        coco._image_objects() if hasattr(coco, "_image_objects") else list(coco.dataset.get("images", ()))
    )
    return listed


def _categories(ground_truth: Any, params: Any) -> list[Mapping[str, Any]]:
    """The categories evaluated, also those that the ground truth does not list."""
    return [ground_truth.cats.get(number, {"id": number}) for number in params.catIds]


def names_of_categories(ground_truth: Any, params: Any) -> list[str]:
    """Returns a different name for each category of the parameters."""
    return category_names(_categories(ground_truth, params))


def category_names(categories: Sequence[Mapping[str, Any]]) -> list[str]:
    """A different name for each category: its own, or its id where it has none; both where others have that name too.

    A category that comes again is named by its number as well: ``dog (3) #2``.

    Example:
        >>> category_names([{"id": 1, "name": "cat"}, {"id": 2}, {"id": 3, "name": "dog"}, {"id": 4, "name": "dog"}])
        ['cat', '2', 'dog (3)', 'dog (4)']
    """
    names = [str(category.get("name", category["id"])) for category in categories]
    seen: Counter[Any] = Counter()
    for place, category in enumerate(categories):
        seen[category["id"]] += 1
        names[place] += f" #{seen[category['id']]}" if seen[category["id"]] > 1 else ""
    while len(set(names)) < len(names):  # again, since another category may be called "dog (3)"
        times = Counter(names)
        names = [f"{name} ({c['id']})" if times[name] > 1 else name for name, c in zip(names, categories)]
    return names


def category_ids(ground_truth: Any, params: Any) -> dict[str, Id]:
    """Category id by the name that results give the category; empty when categories are pooled."""
    if not params.useCats:
        return {}
    categories = _categories(ground_truth, params)
    return {name: category["id"] for name, category in zip(category_names(categories), categories)}
