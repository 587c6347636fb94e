"""The same objects in the COCO JSON that annotation tools export: which keys, ids and forms each of them writes.

Every number is made up here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from testing.oracles import pycocotools

Dataset = dict[str, Any]
Row = dict[str, Any]

WIDTH, HEIGHT = 160, 120
NAMES = ("cat", "dog", "zebra crossing")
SHAPES: dict[str, Callable[[], Dataset]] = {}


def shape(make: Callable[[], Dataset]) -> Callable[[], Dataset]:
    SHAPES[make.__name__] = make
    return make


def objects(seed: int = 5, images: int = 4) -> list[Row]:
    """Objects of whole pixels, in no image more than six: image from 0, class from 0, box, polygon."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for image in range(images):
        for _ in range(int(rng.integers(3, 7))):
            w, h = (int(v) for v in rng.integers(6, 60, 2))
            x, y = int(rng.integers(0, WIDTH - w)), int(rng.integers(0, HEIGHT - h))
            cut = min(w, h) // 3
            polygon = [x + cut, y, x + w, y, x + w, y + h - cut, x + w - cut, y + h, x, y + h, x, y + cut]
            rows.append({"image": image, "class": int(rng.integers(len(NAMES))), "box": [x, y, w, h],
                         "polygon": polygon, "area": w * h - cut * cut})  # fmt: skip
    return rows


def images(first: int, **fields: Any) -> list[Row]:
    """Images in order, with sizes."""
    return [
        {"id": first + i, "file_name": f"photo {i}.jpg", "width": WIDTH, "height": HEIGHT, **fields} for i in range(4)
    ]


def annotations(first_id: int, first_image: int, first_class: int, form: Callable[[Row], Row]) -> list[Row]:
    """Annotations whose ids begin as said, with the keys that ``form`` adds."""
    return [
        {"id": first_id + n, "image_id": first_image + row["image"], "category_id": first_class + row["class"]}
        | form(row)
        for n, row in enumerate(objects())
    ]


def categories(first: int, **fields: Any) -> list[Row]:
    return [{"id": first + k, "name": name, **fields} for k, name in enumerate(NAMES)]


def floats(numbers: list[int]) -> list[float]:
    """The numbers with hundredths, as scaled annotations have them."""
    return [round(number + 0.37 * (n % 3), 2) for n, number in enumerate(numbers)]


def run_lengths(row: Row) -> Row:
    """The box without its last column as run lengths, whose counts are a list."""
    x, y, w, h = row["box"]
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[y : y + h, x : x + w - 1] = 1
    flat = mask.ravel(order="F")
    ends = np.flatnonzero(np.diff(np.concatenate(([0], flat)))).tolist()
    return {"counts": np.diff([0, *ends, flat.size]).tolist(), "size": [HEIGHT, WIDTH]}


def crowds_of(row: Row) -> bool:
    return row["class"] == 1 and row["image"] % 2 == 0


@shape
def labelme() -> Dataset:
    """labelme's examples/instance_segmentation/labelme2coco.py: all ids from 0, null names, several polygons."""
    extra = {"license": 0, "url": None, "date_captured": None}
    return {
        "info": {"description": None, "url": None, "version": None, "year": 2026, "contributor": None},
        "licenses": [{"url": None, "id": 0, "name": None}],
        "images": images(0, **extra),
        "type": "instances",
        "annotations": annotations(0, 0, 0, lambda row: {
            "segmentation": [floats(row["polygon"]), floats(row["polygon"][:6])], "area": float(row["area"]),
            "bbox": [float(v) for v in row["box"]], "iscrowd": 0}),
        "categories": categories(0, supercategory=None),
    }  # fmt: skip


@shape
def labelme2coco() -> Dataset:
    """labelme2coco 0.2.6 (sahi): classes from 0, images without a licence, keys in another order."""
    return {
        "images": images(1),
        "annotations": [{"iscrowd": 0, **row} for row in annotations(1, 1, 0, lambda row: {
            "bbox": row["box"], "segmentation": [row["polygon"]], "area": row["area"]})],
        "categories": categories(0, supercategory="cat"),
    }  # fmt: skip


def _cvat(form: Callable[[Row], Row]) -> Dataset:
    empty = dict.fromkeys(("contributor", "date_created", "description", "url", "version", "year"), "")
    extra = {"license": 0, "flickr_url": "", "coco_url": "", "date_captured": 0}
    return {
        "licenses": [{"name": "", "id": 0, "url": ""}],
        "info": empty,
        "categories": categories(1, supercategory=""),
        "images": images(1, **extra),
        "annotations": annotations(1, 1, 1, form),
    }


@shape
def cvat() -> Dataset:
    """CVAT, COCO 1.0: boxes with `segmentation: []`, masks as crowds, attributes of tracks."""
    attributes = {"occluded": False, "rotation": 0.0, "track_id": 7, "keyframe": True, "colour": "dark blue"}
    return _cvat(lambda row: {
        "segmentation": run_lengths(row) if crowds_of(row) else [], "area": float(row["area"]),
        "bbox": floats(row["box"]), "iscrowd": int(crowds_of(row)), "attributes": attributes})  # fmt: skip


@shape
def datumaro() -> Dataset:
    """datumaro 1.13: polygons, masks as crowds, a score and attributes of some annotations."""
    return _cvat(lambda row: {
        "segmentation": run_lengths(row) if crowds_of(row) else [floats(row["polygon"])],
        "area": float(row["area"]), "bbox": floats(row["box"]), "iscrowd": int(crowds_of(row)),
        **({"score": 0.5, "attributes": {"occluded": False}} if row["class"] == 2 else {})})  # fmt: skip


@shape
def fiftyone() -> Dataset:
    """FiftyOne 1.22: classes from 0 without a supercategory, a score in every annotation, no `segmentation`."""
    return {
        "info": {"year": "", "version": "", "url": "https://voxel51.com/fiftyone", "date_created": "2026-01-01"},
        "licenses": [],
        "categories": categories(0, supercategory=None),
        "images": images(1, license=None, coco_url=None),
        "annotations": annotations(1, 1, 0, lambda row: {
            "bbox": floats(row["box"]), "score": 0.25, "area": float(row["area"]), "iscrowd": 0,
            "truncated": False}),
    }  # fmt: skip


@shape
def supervision_boxes() -> Dataset:
    """supervision, earlier releases: classes from 0, `segmentation: []`, float boxes."""
    return {
        "info": {},
        "licenses": [{"id": 1, "url": "https://creativecommons.org/licenses/by/4.0/", "name": "CC BY 4.0"}],
        "categories": categories(0, supercategory="common-objects"),
        "images": images(1, license=1, date_captured="01/31/2026,12:00:00"),
        "annotations": annotations(1, 1, 0, lambda row: {
            "bbox": [float(v) for v in row["box"]], "area": float(row["area"]), "segmentation": [], "iscrowd": 0}),
    }  # fmt: skip


@shape
def supervision_masks() -> Dataset:
    """supervision 0.31: polygons, of which one is a box of four numbers, and run lengths of masks with holes."""
    dataset = supervision_boxes() | {"categories": categories(1, supercategory="common-objects")}
    rows = objects()
    for n, annotation in enumerate(dataset["annotations"]):
        crowd = crowds_of(rows[n])
        x, y, w, h = rows[n]["box"]
        polygon = [x, y, x + w, y + h] if n == 3 else rows[n]["polygon"]
        annotation |= {"segmentation": run_lengths(rows[n]) if crowd else [polygon], "iscrowd": int(crowd)}
        annotation["category_id"] += 1
    return dataset


@shape
def roboflow() -> Dataset:
    """Roboflow: ids from 0, class 0 above the others and without objects, integers beside floats, `extra` in images."""
    above = {"id": 0, "name": "objects", "supercategory": "none"}
    return {
        "info": {"year": "2026", "version": "1", "description": "Exported from roboflow.com", "contributor": ""},
        "licenses": [{"id": 1, "url": "https://creativecommons.org/licenses/by/4.0/", "name": "CC BY 4.0"}],
        "categories": [above, *categories(1, supercategory="objects")],
        "images": images(0, license=1, date_captured="2026-01-31T12:00:00+00:00", extra={"name": "photo.jpg"}),
        "annotations": annotations(0, 0, 1, lambda row: {
            "bbox": [*row["box"][:2], row["box"][2] + 0.5, row["box"][3]], "area": row["area"] + 0.25,
            "segmentation": [], "iscrowd": 0}),
    }  # fmt: skip


@shape
def globox() -> Dataset:
    """globox 2.9 and Label Studio: every id from 0, `ignore`."""
    return {
        "images": images(0),
        "annotations": annotations(0, 0, 0, lambda row: {
            "iscrowd": 0, "ignore": 0, "bbox": floats(row["box"]), "area": float(row["area"]), "segmentation": []}),
        "categories": categories(0, supercategory="none"),
    }  # fmt: skip


@shape
def pascal_voc() -> Dataset:
    """Converters of Pascal VOC: difficult objects are crowds and to be ignored, polygons are the box's corners."""

    def form(row: Row) -> Row:
        x, y, w, h = row["box"]
        difficult = int(row["class"] == 2 and row["image"] == 1)
        return {"area": w * h, "iscrowd": difficult, "ignore": difficult, "bbox": row["box"],
                "segmentation": [[x, y, x, y + h, x + w, y + h, x + w, y]]}  # fmt: skip

    return {
        "type": "instances",
        "images": images(2007000027),
        "annotations": annotations(1, 2007000027, 1, form),
        "categories": categories(1, supercategory="none"),
    }


@shape
def visdrone() -> Dataset:
    """Converters of VisDrone: ignored regions are class 0, flags of truncation and occlusion, no mask."""
    return {
        "images": images(1),
        "annotations": annotations(1, 1, 0, lambda row: {
            "bbox": row["box"], "area": row["box"][2] * row["box"][3], "iscrowd": 0, "ignore": int(row["class"] == 0),
            "segmentation": [], "truncation": 0, "occlusion": 1}),
        "categories": [{"id": k, "name": name} for k, name in enumerate(("ignored regions", "car", "van"))],
    }  # fmt: skip


@shape
def dota() -> Dataset:
    """DOTA's development kit: the corners of a rotated box are its polygon, `bbox` is around them."""

    def form(row: Row) -> Row:
        x, y, w, h = row["box"]
        return {"area": w * h / 2.0, "segmentation": [[x + w / 2, y, x + w, y + h / 2, x + w / 2, y + h, x, y + h / 2]],
                "iscrowd": 0, "bbox": row["box"]}  # fmt: skip

    return {
        "info": {"contributor": "", "data_created": "2026", "description": "", "version": "1.0", "year": 2026},
        "images": images(1),
        "categories": categories(1, supercategory="plane"),
        "annotations": annotations(1, 1, 1, form),
    }


@shape
def coco_annotator() -> Dataset:
    """COCO Annotator: colours, metadata and nulls beside what is evaluated; `iscrowd` is a boolean."""
    return {
        "images": images(11, dataset_id=3, category_ids=[1], annotated=True, annotating=[], num_annotations=4,
                         metadata={}, deleted=False, milliseconds=0, events=[], regenerate_thumbnail=False),
        "categories": categories(1, supercategory="", color="#7a3d10", metadata={}, creator="a", keypoint_colors=[]),
        "annotations": annotations(40, 11, 1, lambda row: {
            "dataset_id": 3, "segmentation": [floats(row["polygon"])], "area": row["area"], "bbox": floats(row["box"]),
            "iscrowd": False, "isbbox": False, "creator": "a", "width": WIDTH, "height": HEIGHT, "color": "#000000",
            "keypoints": [], "metadata": {}, "milliseconds": 0, "events": []}),
    }  # fmt: skip


def people() -> Dataset:
    """mmpose's test files: a person with 17 named points and a skeleton, boxes as floats, every visibility.

    Also a visibility of 3, which annotation programs write for points that lie outside of the image.
    """
    rng = np.random.default_rng(8)

    def form(row: Row) -> Row:
        x, y, w, h = row["box"]
        points = [[round(x + w * a, 2), round(y + h * b, 2)] for a, b in rng.random((17, 2)).tolist()]
        visible = rng.choice([0, 1, 2, 3], 17, p=[0.3, 0.2, 0.4, 0.1]).tolist()
        keypoints = [v for (a, b), seen in zip(points, visible) for v in ([a, b, seen] if seen else [0, 0, 0])]
        return {"keypoints": keypoints, "num_keypoints": sum(v > 0 for v in visible), "iscrowd": 0,
                "bbox": floats(row["box"]), "area": float(row["area"]), "segmentation": []}  # fmt: skip

    person = {"supercategory": "person", "id": 1, "name": "person", "keypoints": [f"point {n}" for n in range(17)],
              "skeleton": [[16, 14], [14, 12], [17, 15]]}  # fmt: skip
    rows = [{**row, "category_id": 1} for row in annotations(900100581904, 785, 1, form)]
    return {"categories": [person], "images": images(785), "annotations": rows}


def detections_on(dataset: Dataset, kind: str, seed: int = 3) -> list[Row]:
    """Detections near most ground truths and some elsewhere, with scores that tie."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for annotation in dataset["annotations"]:
        for _ in range(int(rng.integers(0, 3))):
            row = {"image_id": annotation["image_id"], "category_id": annotation["category_id"]}
            row["score"] = round(float(rng.random()), 1)
            box = [round(v + float(d), 1) for v, d in zip(annotation["bbox"], rng.normal(0, 2, 4))]
            box[2:] = [max(v, 1.0) for v in box[2:]]
            rows.append(row | detected(annotation, kind, box, rng))
    return rows


def detected(annotation: Row, kind: str, box: list[float], rng: np.random.Generator) -> Row:
    """What is detected of an annotation: its box, the mask of the box, or its points."""
    if kind == "bbox":
        return {"bbox": box}
    if kind == "keypoints":
        moves = rng.normal(0, 1, 51).tolist()
        return {"keypoints": [float(v + (n % 3 < 2) * moves[n]) for n, v in enumerate(annotation["keypoints"])]}
    mask = pycocotools("mask")
    x, y, w, h = box
    rle = mask.merge(mask.frPyObjects([[x, y, x + w, y, x + w, y + h, x, y + h]], HEIGHT, WIDTH))
    return {"segmentation": {"size": rle["size"], "counts": rle["counts"].decode()}}
