"""The ``COCO`` class of pycocotools, over columns: Python objects are made only when someone asks for them."""

from __future__ import annotations

import copy
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.load_results import (
    Object,
    SourceFile,
    annotation_objects,
    annotations_of_results,
    announce_array,
    dataset_of_captions,
    kind_of_results,
    objects_of_rows,
    on_dataset,
    read_results,
    result_dataset,
)
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import Dataset, columns_from_dataset, read_ground_truth, result_rows
from valor_gpu.inputs.coco_ids import listed_ids

Ids = Iterable[Any] | int | str


@frozen
class _Results:
    """What the objects of a results set are made from: its ground truth, and the file, list or (None) columns."""

    ground_truth: COCO
    source: SourceFile | list[Object] | None
    kind: str


class _Part:
    """An attribute of the index, built when first read after ``createIndex``."""

    def __init__(self, build: Callable[[COCO], Any]) -> None:
        self._build = build

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, coco: COCO | None, owner: type) -> Any:
        if coco is None:
            return self
        if self._name not in coco._parts:
            coco._parts[self._name] = self._build(coco)
        return coco._parts[self._name]

    def __set__(self, coco: COCO, value: Any) -> None:
        coco._parts[self._name] = value


def _by_id(objects: Iterable[Object]) -> dict[int, Object]:
    return {item["id"]: item for item in objects}


def _image_to_annotations(coco: COCO) -> defaultdict[int, list[Object]]:
    annotations: defaultdict[int, list[Object]] = defaultdict(list)
    for annotation in coco.dataset.get("annotations", ()):
        annotations[annotation["image_id"]].append(annotation)
    return annotations


def _category_to_images(coco: COCO) -> defaultdict[int, list[int]]:
    images: defaultdict[int, list[int]] = defaultdict(list)
    if "categories" in coco.dataset:
        for annotation in coco.dataset.get("annotations", ()):
            images[annotation["category_id"]].append(annotation["image_id"])
    return images


_ID_FIELDS = {
    "image_id": (("images", "id"), ("annotations", "image_id")),
    "category_id": (("categories", "id"), ("annotations", "category_id")),
}


def _check_kinds(coco: COCO) -> None:
    """Raises where some ids of images, or of categories, are texts and others not, which no index brings together."""
    for places in _ID_FIELDS.values():
        ids = (each.get(field) for name, field in places for each in coco.dataset.get(name, ()))
        if len({isinstance(each, str) for each in ids if each is not None}) > 1:
            columns_from_dataset(coco.dataset)


def _listed(ids: Ids) -> Any:
    """A filter as pycocotools takes it: anything that can be counted, or one value (a name too counts as itself)."""
    return ids if hasattr(ids, "__iter__") and hasattr(ids, "__len__") and not isinstance(ids, str) else [ids]


class COCO:
    """A COCO dataset, or results on one: drop-in for ``pycocotools.coco.COCO``.

    Loading keeps numpy columns. ``dataset`` and the index (``anns``, ``imgs``, ``cats``, ``imgToAnns``,
    ``catToImgs``) are made from the file when first read; if the file has changed since, that raises an error.

    Args:
        annotation_file: path of a JSON object with ``images``, ``annotations`` and ``categories``, plain or
            gzip-compressed, or ``-`` for standard input. Without it the set is empty: fill ``dataset``, then call
            :meth:`createIndex`.

    Raises:
        InputError: the file is not such JSON; says where.

    Example:
        >>> ground_truth = COCO()
        >>> categories = [{"id": 1, "name": "cat"}]
        >>> ground_truth.dataset = {"images": [{"id": 7}], "categories": categories, "annotations": []}
        >>> ground_truth.createIndex()
        creating index...
        index created!
        >>> results = [{"image_id": 7, "category_id": 1, "bbox": [0, 0, 4, 5], "score": 0.5}]
        >>> detections = ground_truth.loadRes(results)  # doctest: +ELLIPSIS
        Loading and preparing results...
        DONE (t=...s)
        creating index...
        index created!
        >>> detections.columns.annotations.area.tolist()
        [20.0]
    """

    anns = _Part(lambda coco: _by_id(coco.dataset.get("annotations", ())))
    imgs = _Part(lambda coco: _by_id(coco.dataset.get("images", ())))
    cats = _Part(lambda coco: _by_id(coco._categories()))
    imgToAnns = _Part(_image_to_annotations)
    catToImgs = _Part(_category_to_images)
    _kinds_are_checked = _Part(_check_kinds)

    def __init__(self, annotation_file: str | os.PathLike[str] | None = None) -> None:
        self._dataset: Object | None = {}
        self._columns: Dataset | None = None  # what the source held, while nobody has seen objects
        self._source: SourceFile | _Results | None = None
        self._parts: Object = {}
        if annotation_file is not None:
            print("loading annotations into memory...")
            start = time.time()
            self._read_lazily(SourceFile.at(annotation_file), read_ground_truth(annotation_file))
            print(f"Done (t={time.time() - start:0.2f}s)")
            self.createIndex()

    def _read_lazily(self, source: SourceFile | _Results, read: Dataset) -> None:
        self._dataset, self._source, self._columns = None, source, read

    @property
    def dataset(self) -> Any:
        """The whole dataset as Python objects: from here on they, not the columns, are what counts."""
        if self._dataset is None:
            self._dataset = self._objects()
            self._columns = None
        return self._dataset

    @dataset.setter
    def dataset(self, dataset: Object) -> None:
        self._dataset, self._source, self._columns = dataset, None, None

    @property
    def columns(self) -> Dataset:
        """The dataset as columns: those read, or, once objects have been handed out, what the objects now hold."""
        if self._columns is not None:
            return self._columns
        return columns_from_dataset(self.dataset)

    def columns_for(self, imgIds: Sequence[int], catIds: Iterable[int] = ()) -> Dataset:
        """As :attr:`columns`, but annotations of images other than ``imgIds`` may be left out.

        A set that has handed out objects reads only those of these images again, through the index as pycocotools
        does, so that evaluating batch by batch costs in proportion to the batch. ``catIds`` limits the categories, none
        for all: as in pycocotools an annotation is chosen by its own category, then the last one with its id
        replaces it.
        """
        if self._columns is not None:
            return self._columns
        _ = self._kinds_are_checked
        wanted = set(catIds)
        chosen = (a for a in self._of_images(imgIds) if not wanted or a.get("category_id") in wanted)
        annotations = [self.anns[a["id"]] for a in chosen]
        return columns_from_dataset({**self._head(), "annotations": annotations}, "selected from dataset")

    def createIndex(self) -> None:
        """Takes ``dataset`` as it is now; the index is built when it is first read."""
        print("creating index...")
        self._parts = {}
        print("index created!")

    def info(self) -> None:
        """Prints the ``info`` of the dataset, one line per key."""
        for key, value in self.dataset["info"].items():
            print(f"{key}: {value}")

    def getAnnIds(
        self, imgIds: Ids = (), catIds: Ids = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[int]:
        """Ids of the annotations of these images and categories, with an area strictly inside ``areaRng``.

        Args:
            imgIds: one id or several; none for all images.
            catIds: one id or several; none for all categories.
            areaRng: two areas in square pixels; none for all areas.
            iscrowd: only annotations with this ``iscrowd``.

        Returns:
            Ids in order of ``imgIds``, else of the dataset.
        """
        images, categories = _listed(imgIds), _listed(catIds)
        annotations: Iterable[Object] = self._of_images(images) if len(images) else self.dataset["annotations"]
        if len(categories):
            annotations = [a for a in annotations if a["category_id"] in categories]
        if len(areaRng):
            annotations = [a for a in annotations if areaRng[0] < a["area"] < areaRng[1]]
        return [a["id"] for a in annotations if iscrowd is None or a["iscrowd"] == iscrowd]

    def _of_images(self, image_ids: Iterable[int]) -> Iterable[Object]:
        known = self.imgToAnns
        return chain.from_iterable(known[image_id] for image_id in image_ids if image_id in known)

    def getCatIds(self, catNms: Ids = (), supNms: Ids = (), catIds: Ids = ()) -> list[int]:
        """Ids of the categories with these names, supercategories and ids; an empty filter lets all pass."""
        filters = {"name": _listed(catNms), "supercategory": _listed(supNms), "id": _listed(catIds)}
        active = {key: allowed for key, allowed in filters.items() if len(allowed)}
        return [c["id"] for c in self._categories() if all(c[key] in allowed for key, allowed in active.items())]

    def getImgIds(self, imgIds: Ids = (), catIds: Ids = ()) -> list[int]:
        """Ids among ``imgIds`` (none: all images) of the images that have every one of ``catIds``."""
        images, categories = _listed(imgIds), _listed(catIds)
        if len(images) == len(categories) == 0:
            return (
                list(self.imgs) if self._columns is None else list(dict.fromkeys(listed_ids(self._columns, "image_id")))
            )
        image_ids = set(images)
        for position, category in enumerate(categories):
            having = set(self.catToImgs[category])
            image_ids = having if position == 0 and not image_ids else image_ids & having
        return list(image_ids)

    def loadAnns(self, ids: Ids = ()) -> list[Object]:
        """The annotation objects with these ids (one id or several)."""
        return [self.anns[i] for i in _listed(ids)]

    def loadCats(self, ids: Ids = ()) -> list[Object]:
        """The category objects with these ids (one id or several)."""
        return [self.cats[i] for i in _listed(ids)]

    def loadImgs(self, ids: Ids = ()) -> list[Object]:
        """The image objects with these ids (one id or several)."""
        return [self.imgs[i] for i in _listed(ids)]

    def loadRes(self, resFile: str | os.PathLike[str] | list[Object] | NDArray[Any]) -> COCO:
        """Results on this dataset.

        Args:
            resFile: path of a JSON array of objects, or such a list, with ``image_id``, ``category_id``, ``bbox`` and
                ``score`` (for ``iouType="rotated"`` ``bbox`` has 5 or 8 numbers); or an array ``[N, 7]`` of image_id,
                x, y, width, height, score, category_id. Objects with ``segmentation``, ``keypoints`` or ``caption`` in
                place of ``bbox`` are taken too: the first object decides. Then the area is that of the mask, or of
                the box around all keypoints. A list is not changed; it is kept, since objects are made from it when
                asked for.

        Raises:
            InputError: an image id that the dataset does not have, a missing key, or a value of the wrong type; says
                where.
        """
        print("Loading and preparing results...")
        start = time.time()
        rows, source = read_results(resFile)
        head = columns_from_dataset(self._head()) if self._columns is None else self._columns
        head, rows = on_dataset(head, rows)
        kind = kind_of_results(rows)
        results = COCO()
        if kind == "caption":
            objects = source.load() if isinstance(source, SourceFile) else source
            results._dataset = dataset_of_captions(objects or (), self.dataset)
        else:
            annotations = annotations_of_results(kind, rows, head.annotations.images)
            where = rows.where.rstrip(": ")
            columns = replace(head, categories=copy.deepcopy(head.categories), annotations=annotations, where=where)
            results._read_lazily(_Results(self, source, kind), columns)
        print(f"DONE (t={time.time() - start:0.2f}s)")
        results.createIndex()
        return results

    def loadNumpyAnnotations(self, data: NDArray[Any]) -> list[Object]:
        """The rows of an array ``[N, 7]`` (see :meth:`loadRes`) as result objects."""
        announce_array(data)
        return objects_of_rows(result_rows(data, "data"))

    def annToRLE(self, ann: Object) -> Any:
        """The run-length mask of an annotation: as it is when compressed, else by :mod:`valor_gpu.coco.mask`."""
        segmentation = ann["segmentation"]
        if isinstance(segmentation, dict) and isinstance(segmentation["counts"], (str, bytes)):
            return segmentation
        from valor_gpu.compat.pycocotools import mask  # here, since boxes need none of it

        image = self.imgs[ann["image_id"]]
        runs = mask.frPyObjects(segmentation, image["height"], image["width"])
        return mask.merge(runs) if isinstance(segmentation, list) else runs

    def annToMask(self, ann: Object) -> NDArray[np.uint8]:
        """The mask of an annotation, uint8 ``[height, width]``."""
        from valor_gpu.compat.pycocotools import mask

        bits: NDArray[np.uint8] = mask.decode(self.annToRLE(ann))
        return bits

    def showAnns(self, anns: Sequence[Object], draw_bbox: bool = False) -> None:
        """Draws polygons, masks, keypoints and, if asked for, boxes into the current axes; prints captions."""
        from valor_gpu.coco.draw import draw_annotations

        draw_annotations(anns, draw_bbox, self.annToMask, lambda number: self.loadCats(number)[0])

    def download(self, tarDir: str | None = None, imgIds: Sequence[int] = ()) -> int | None:
        """Fetches images (all, or those with these ids) that are not in folder ``tarDir`` from their ``coco_url``."""
        import urllib.request  # here, since it loads http, email and ssl

        if tarDir is None:
            print("Please specify target directory")
            return -1
        images = self.loadImgs(imgIds) if len(imgIds) else list(self.imgs.values())
        os.makedirs(tarDir, exist_ok=True)
        for number, image in enumerate(images):
            start = time.time()
            target = os.path.join(tarDir, image["file_name"])
            if not os.path.exists(target):
                urllib.request.urlretrieve(image["coco_url"], target)
            print(f"downloaded {number}/{len(images)} images (t={time.time() - start:0.1f}s)")
        return None

    def _categories(self) -> list[Object]:
        """The category objects, without making any other object."""
        return self._columns.categories if self._columns is not None else self.dataset.get("categories", [])

    def _head(self) -> Object:
        """The dataset without its annotations."""
        return {key: self.dataset[key] for key in ("images", "categories") if key in self.dataset}

    def _image_objects(self) -> list[Object]:
        """The image objects, without making annotation objects of a file."""
        if self._dataset is None and isinstance(self._source, SourceFile) and self._source.stamp:
            return read_ground_truth(self._source.path, images=True).images or []
        return list(self.dataset.get("images", ()))

    def _objects(self) -> Object:
        """The dataset as objects, from where the columns came from."""
        assert self._columns is not None and self._source is not None
        if isinstance(self._source, SourceFile):
            dataset = dict(self._source.load())
            if "categories" in dataset:
                dataset["categories"] = self._columns.categories  # may have been handed out already
            return dataset
        source = self._source.source
        objects = source.load() if isinstance(source, SourceFile) else source
        if objects is None:
            objects = objects_of_rows(self._columns.annotations)
        if len(objects) != len(self._columns.annotations):
            raise InputError("results must be as they were when they were loaded but have changed: load them again")
        annotations = annotation_objects(self._source.kind, objects, self._columns.annotations)
        dataset = result_dataset(annotations, self._source.ground_truth.dataset)
        return {**dataset, "categories": self._columns.categories}
