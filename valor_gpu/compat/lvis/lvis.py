"""LVIS datasets and results under the names of lvis-api, over columns: objects are made only when someone asks.

torch is not imported.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.federated import best_of_images
from valor_gpu.coco.load_results import (
    Object,
    SourceFile,
    annotations_of_results,
    kind_of_results,
    objects_of_rows,
    on_dataset,
    read_results,
)
from valor_gpu.compat.pycocotools.coco import COCO
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.coco import Annotations, Dataset, columns_from_dataset, read_ground_truth
from valor_gpu.inputs.coco_ids import listed_ids

_LOGGER = logging.getLogger("valor_gpu.coco.lvis")  # the name that programs configure


class LVIS:
    """An LVIS dataset (v0.5 or v1), a drop-in for ``lvis.LVIS``.

    Args:
        annotation_path: a JSON object with ``images``, ``annotations`` and ``categories``, plain or gzip-compressed.
            Images need ``neg_category_ids`` and ``not_exhaustive_category_ids``, categories ``frequency``.

    Attributes:
        dataset: the whole dataset as Python objects, made when first read.
        anns: annotation objects by id; likewise ``imgs`` and ``cats``.
        img_ann_map: image id to its annotation objects.
        cat_img_map: category id to the image id of each of its annotations.

    Raises:
        InputError: the file is not such JSON; says where.

    Example:
        >>> import json, tempfile
        >>> image = {"id": 7, "neg_category_ids": [2], "not_exhaustive_category_ids": []}
        >>> categories = [{"id": 1, "name": "acorn", "frequency": "r"}]
        >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        ...     json.dump({"images": [image], "annotations": [], "categories": categories}, file)
        ...     file.flush()
        ...     dataset = LVIS(file.name)
        >>> dataset.get_img_ids(), dataset.get_cat_ids()
        ([7], [1])
    """

    def __init__(self, annotation_path: str | os.PathLike[str]) -> None:
        if not isinstance(annotation_path, (str, os.PathLike)):
            raise InputTypeError(f"annotation_path must be a path but got {annotation_path!r:.60}")
        self.logger = _LOGGER
        self._dataset: Object | None = None
        self._columns: Dataset | None = read_ground_truth(annotation_path, images=True)
        self._load: Callable[[], Object] = SourceFile.at(annotation_path).load
        self._coco: COCO | None = None

    @property
    def dataset(self) -> Object:
        """The whole dataset as Python objects: from here on they, not the columns, are what counts."""
        if self._dataset is None:
            self._dataset, self._columns = self._load(), None
        return self._dataset

    @property
    def columns(self) -> Dataset:
        """The dataset as columns: those read, or, once objects have been handed out, what the objects now hold."""
        return self._columns or columns_from_dataset(self.dataset, images=True)

    @property
    def _index(self) -> COCO:
        """The index over the objects."""
        if self._coco is None:
            self._coco = COCO()
            self._coco.dataset = self.dataset
        return self._coco

    @property
    def anns(self) -> Any:
        """Annotation objects by id."""
        return self._index.anns

    @property
    def imgs(self) -> Any:
        """Image objects by id."""
        return self._index.imgs

    @property
    def cats(self) -> Any:
        """Category objects by id."""
        return self._index.cats

    @property
    def img_ann_map(self) -> Any:
        """Image id to annotation objects."""
        return self._index.imgToAnns

    @property
    def cat_img_map(self) -> Any:
        """Category id to the image ids of its annotations."""
        return self._index.catToImgs

    def get_ann_ids(
        self,
        img_ids: Iterable[int] | None = None,
        cat_ids: Iterable[int] | None = None,
        area_rng: Sequence[float] | None = None,
    ) -> list[int]:
        """Ids of the annotations of these images and categories, with an area strictly inside ``area_rng``.

        Args:
            img_ids: None for all images.
            cat_ids: None for all categories.
            area_rng: two areas in square pixels; None for all areas, or, where categories are given, all above 0.
        """
        known = self.img_ann_map
        chosen = self.dataset["annotations"] if img_ids is None else [a for i in img_ids for a in known.get(i, ())]
        if cat_ids is None and area_rng is None:
            return [a["id"] for a in chosen]
        wanted = None if cat_ids is None else set(cat_ids)
        low, high = (0, float("inf")) if area_rng is None else area_rng
        return [a["id"] for a in chosen if (wanted is None or a["category_id"] in wanted) and low < a["area"] < high]

    def get_cat_ids(self) -> list[int]:
        """All category ids, in the order of the file."""
        return list(dict.fromkeys(listed_ids(self.columns, "category_id")))

    def get_img_ids(self) -> list[int]:
        """All image ids, in the order of the file."""
        return list(dict.fromkeys(listed_ids(self.columns, "image_id")))

    def load_anns(self, ids: Iterable[int] | None = None) -> list[Object]:
        """The annotations with these ids, or all."""
        return _chosen(self.anns, ids)

    def load_cats(self, ids: Iterable[int] | None) -> list[Object]:
        """The categories with these ids, or all."""
        return _chosen(self.cats, ids)

    def load_imgs(self, ids: Iterable[int] | None) -> list[Object]:
        """The images with these ids, or all."""
        return _chosen(self.imgs, ids)

    def download(self, save_dir: str | os.PathLike[str], img_ids: Iterable[int] | None = None) -> None:
        """Fetches images that are not in folder ``save_dir`` from their ``coco_url``."""
        import urllib.request  # here, since it loads http, email and ssl

        os.makedirs(save_dir, exist_ok=True)
        for image in self.load_imgs(img_ids):
            target = os.path.join(save_dir, image["coco_url"].split("/")[-1])
            if not os.path.exists(target):
                urllib.request.urlretrieve(image["coco_url"], target)

    def ann_to_rle(self, ann: Object) -> Any:
        """The run-length mask of an annotation, as :meth:`valor_gpu.coco.COCO.annToRLE`."""
        return self._index.annToRLE(ann)

    def ann_to_mask(self, ann: Object) -> NDArray[np.uint8]:
        """The mask of an annotation, uint8 ``[height, width]``."""
        return self._index.annToMask(ann)


def _chosen(objects: dict[int, Object], ids: Iterable[int] | None) -> list[Object]:
    return list(objects.values()) if ids is None else [objects[number] for number in ids]


class LVISResults(LVIS):
    """Detections on an LVIS dataset, a drop-in for ``lvis.LVISResults``; the caller's objects are not changed.

    Args:
        lvis_gt: the ground truths, or the path of their file.
        results: the path of a JSON array of objects with ``image_id``, ``category_id``, ``score`` and ``bbox`` or
            ``segmentation`` (run lengths), or a list of such objects.
        max_dets: how many detections of an image are kept over all categories, those of highest score, of equal scores
            the first; negative: all. The official value is 300.

    Attributes:
        max_dets: as given.
        dropped: how many results are beyond that limit.

    Raises:
        InputError: a result lacks a key, has a value of the wrong type or belongs to no image; says which.

    Example:
        >>> import json, tempfile
        >>> image = {"id": 7, "neg_category_ids": [2], "not_exhaustive_category_ids": []}
        >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        ...     json.dump({"images": [image], "annotations": [], "categories": [{"id": 1, "frequency": "r"}]}, file)
        ...     file.flush()
        ...     found = [
        ...         {"image_id": 7, "category_id": 1, "bbox": [0, 0, 4, n], "score": n / 10} for n in (3, 5, 4)
        ...     ]
        ...     results = LVISResults(file.name, found, max_dets=2)
        >>> results.columns.annotations.area.tolist()
        [20.0, 16.0]
    """

    def __init__(self, lvis_gt: LVIS | str | os.PathLike[str], results: Any, max_dets: int = 300) -> None:
        if not isinstance(lvis_gt, (LVIS, str, os.PathLike)):
            raise InputTypeError(f"lvis_gt must be an LVIS object or a path but got {lvis_gt!r:.60}")
        if not isinstance(results, (str, os.PathLike, list, tuple, np.ndarray)):
            raise InputTypeError(f"results must be a path or a list of objects but got {results!r:.60}")
        if isinstance(max_dets, bool) or not isinstance(max_dets, (int, np.integer)):
            raise InputTypeError(f"max_dets must be int but got {max_dets!r:.60}")
        truth = lvis_gt if isinstance(lvis_gt, LVIS) else LVIS(lvis_gt)
        self.logger = _LOGGER
        self._coco = None
        rows, source = read_results(results)
        rows.require("score", "image_id")
        head, rows = on_dataset(truth.columns, rows)
        kept = best_of_images(rows.image_id, rows.score, max_dets)
        self.max_dets, self.dropped = int(max_dets), len(rows) - len(kept)
        taken = rows.take(kept)
        kind = kind_of_results(taken)
        annotations = annotations_of_results(kind, taken, head.annotations.images)
        annotations = replace(annotations, id=np.arange(1, len(kept) + 1, dtype=np.int64))
        where = rows.where.rstrip(": ")
        self._columns = replace(head, annotations=annotations, where=where)
        self._dataset = None
        self._load = partial(_dataset_of, truth, source, annotations, kept, len(rows))

    def get_top_results(self, img_id: int, score_thrs: float) -> list[Object]:
        """The detections of an image with a score above ``score_thrs``."""
        return [a for a in self.load_anns(self.get_ann_ids(img_ids=[img_id])) if a["score"] > score_thrs]


def _dataset_of(truth: LVIS, source: Any, annotations: Annotations, kept: NDArray[np.int64], count: int) -> Object:
    """The dataset as objects: new ones for the results, whose rows ``kept`` out of ``count`` became annotations."""
    given = source.load() if isinstance(source, SourceFile) else source
    if given is None:  # an array, which is kept whole
        given = objects_of_rows(annotations)
        kept, count = np.arange(len(given)), len(given)
    if len(given) != count:
        raise InputError("results must be as they were when they were loaded but have changed: load them again")
    boxes, areas = annotations.bbox.tolist(), annotations.area.tolist()
    objects = []
    for place, row in enumerate(kept.tolist()):
        result = given[row]
        x, y, width, height = result.get("bbox") or boxes[place]
        corners = [[x, y, x, y + height, x + width, y + height, x + width, y]]
        parts = {"segmentation": corners, "bbox": boxes[place], **result}
        objects.append({**parts, "area": areas[place], "id": place + 1})
    return {**truth.dataset, "annotations": objects}
