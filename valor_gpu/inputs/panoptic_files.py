"""COCO panoptic files: a JSON of segments, and a PNG of segment ids for every image. Imports no torch.

The format: <https://cocodataset.org/#format-data>, section 4. The id of a pixel is R + 256 G + 65536 B; 0 is void.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import shown
from valor_gpu.inputs.files import LARGEST_EXPANSION, InputFile
from valor_gpu.inputs.label_map_files import FREE_PIXELS
from valor_gpu.inputs.png import COLORS, RGB, parse_png

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
LAST_ID = 2**24 - 1
"""The largest id that three bytes hold."""

ImageId = int | str


class Category(NamedTuple):
    """A category of a ground truth: its id, its name, and whether it is a thing."""

    id: int
    name: str
    is_thing: bool


@frozen
class Annotation:
    """The segments of one image.

    Attributes:
        image_id: an int, or a string as in Cityscapes.
        file_name: of the PNG, below the folder.
        place: where it stands, for messages.
        ids: int64 ``[N]``, all different.
        categories: int64 ``[N]``.
        crowd: bool ``[N]``.
        areas: int64 ``[N]``, -1 where the file has none.
    """

    image_id: ImageId
    file_name: str
    place: str
    ids: NDArray[np.int64]
    categories: NDArray[np.int64]
    crowd: NDArray[np.bool_]
    areas: NDArray[np.int64]


@frozen
class PanopticFile:
    """One JSON of segments.

    Attributes:
        path: of the file.
        annotations: by image id, in the order of the file.
        categories: of a ground truth, in the order of the file; empty of predictions.
        sizes: width and height of images by id, where the file has them.
        photos: ``file_name`` of images by id, where the file has them.
        without_iscrowd: how many segments of a ground truth lack ``iscrowd``, or have null; 0 of predictions.
    """

    path: str
    annotations: Mapping[ImageId, Annotation]
    categories: tuple[Category, ...]
    sizes: Mapping[ImageId, tuple[int, int]]
    photos: Mapping[ImageId, str]
    without_iscrowd: int = 0


def read_panoptic_json(path: str, ground_truth: bool) -> PanopticFile:
    """Reads the segments of all images.

    Args:
        path: of JSON, plain or gzip: ``annotations`` with ``image_id``, ``file_name`` and ``segments_info``, whose
            entries have ``id``, ``category_id``, ``iscrowd`` (0 where it is missing or null) and ``area``; of a ground
            truth ``categories`` with ``id``, ``name`` and ``isthing``.
        ground_truth: whether there must be categories.

    Raises:
        InputError: naming the file and the entry.
        OSError: the file cannot be read.
    """
    try:
        content = InputFile(path).read()  # json would take bytes for halves of pairs of UTF-16
        whole = json.loads(content.decode(json.detect_encoding(content)), object_pairs_hook=keys_once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} must be JSON but is not: {error}") from None
    if not isinstance(whole, dict):
        raise InputError(f"{path} must be an object with annotations but is {_kind(whole)}")
    categories = tuple(_categories(path, whole)) if ground_truth else ()
    annotations: dict[ImageId, Annotation] = {}
    for index, entry in enumerate(_field(path, whole, "annotations", list)):
        found = _annotation(f"{path}: annotations[{index}]", entry)
        if found.image_id in annotations:
            raise InputError(f"{found.place} must have an image_id of its own but repeats {found.image_id!r}")
        annotations[found.image_id] = found
    segments = (each for entry in whole["annotations"] for each in entry["segments_info"])
    lacking = sum(each.get("iscrowd") is None for each in segments) if ground_truth else 0
    images = _images(path, whole)
    photos = {key: image["file_name"] for key, image in images.items() if isinstance(image.get("file_name"), str)}
    return PanopticFile(path, annotations, categories, _sizes(images), photos, lacking)


def _categories(path: str, whole: dict[str, Any]) -> list[Category]:
    found: dict[int, Category] = {}
    for index, entry in enumerate(_field(path, whole, "categories", list)):
        place = f"{path}: categories[{index}]"
        number = _field(place, entry, "id", int)
        thing = entry["isthing"] if isinstance(entry.get("isthing"), bool) else _field(place, entry, "isthing", int)
        if thing not in (0, 1):
            raise InputError(f"{place}.isthing must be 0 or 1 but is {thing}")
        if number in found:
            raise InputError(f"{place} must have an id of its own but repeats {number}")
        found[number] = Category(number, str(entry.get("name", number)), bool(thing))
    if not found:
        raise InputError(f"{path} must have categories but has none")
    return list(found.values())


def _images(path: str, whole: dict[str, Any]) -> dict[ImageId, dict[str, Any]]:
    """The objects of images by id."""
    images = whole.get("images", [])
    if not isinstance(images, list):
        raise InputError(f"{path}: images must be a list but is {_kind(images)}")
    return {each["id"]: each for each in images if isinstance(each, dict) and isinstance(each.get("id"), (int, str))}


def _sizes(images: Mapping[ImageId, dict[str, Any]]) -> dict[ImageId, tuple[int, int]]:
    """Of the images that have one."""
    sides = {key: (image.get("width"), image.get("height")) for key, image in images.items()}
    return {key: (w, h) for key, (w, h) in sides.items() if type(w) is int and type(h) is int}


def _annotation(place: str, entry: Any) -> Annotation:
    image_id = _field(place, entry, "image_id", (int, str))
    name = _field(place, entry, "file_name", str)
    if os.path.isabs(name) or ".." in name.split("/") or "\0" in name or not name:
        raise InputError(f"{place}.file_name must name a file inside the folder but is {shown(name)}")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise InputError(f"{place}.file_name must be a name that a file can have but is {shown(name)}") from None
    segments = _field(place, entry, "segments_info", list)
    rows = [_segment(f"{place}.segments_info[{index}]", segment) for index, segment in enumerate(segments)]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    ids, counts = np.unique(columns[0], return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{place} must have each segment id once but repeats {ids[counts > 1][0]}")
    return Annotation(image_id, name, place, columns[0], columns[1], columns[2] == 1, columns[3])


def _segment(place: str, entry: Any) -> tuple[int, int, int, int]:
    number, category = _field(place, entry, "id", int), _field(place, entry, "category_id", int)
    if not 0 < number <= LAST_ID:
        raise InputError(f"{place}.id must be from 1 to {LAST_ID} but is {number}")
    if not -(2**63) <= category < 2**63:
        raise InputError(f"{place}.category_id must fit in int64 but is {category}")
    crowd = 0 if entry.get("iscrowd") is None else entry["iscrowd"]
    if crowd not in (0, 1):
        raise InputError(f"{place}.iscrowd must be 0 or 1 but is {shown(crowd)}")
    area = entry.get("area", -1)
    return number, category, int(crowd), int(area) if type(area) is int and 0 <= area < 2**63 else -1


def _field(place: str, entry: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(entry, dict):
        raise InputError(f"{place} must be an object but is {_kind(entry)}")
    if name not in entry:
        raise InputError(f"{place} must have {name} but has {', '.join(map(repr, entry)) or 'nothing'}")
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InputError(f"{place}.{name} must be {' or '.join(k.__name__ for k in kinds)} but is {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    return {dict: "an object", type(None): "null"}.get(type(value), type(value).__name__)


# ---------------------------------------------------------------------------------------------------------------- PNG


class Picture(NamedTuple):
    """The ids of an image: uint8 ``[H, W, 3]``, and size in bytes and SHA-256 of its file."""

    ids: NDArray[np.uint8]
    file_size: int
    digest: bytes


def read_ids(path: str, named_by: str) -> Picture:
    """Reads a PNG of segment ids.

    Args:
        path: of the file.
        named_by: what names it, for messages.

    Raises:
        InputError: it is missing, damaged, or no PNG of RGB colours of 8 bits; its name begins the message.
        MissingExtraError: Pillow is not installed.
        OSError: it cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path} must be a regular file but is not")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise InputError(f"{path} must be there, as {named_by} names it, but is not") from None
    png = parse_png(path, data)
    if png.color != RGB or png.depth != 8:
        got = COLORS[png.color] if png.color != RGB else f"RGB of {png.depth} bits"
        raise InputError(f"{path} must have the ids of segments as RGB of 8 bits (R + 256 G + 65536 B) but has {got}")
    if 3 * png.width * png.height > max(FREE_PIXELS, LARGEST_EXPANSION * len(data)):
        raise InputError(
            f"{path} must expand at most {LARGEST_EXPANSION} times but {len(data)} bytes stand for"
            f" {png.width} x {png.height} pixels: if that is right, save it as a PNG without compression"
        )
    return Picture(png.unpack(), len(data), hashlib.sha256(data).digest())
