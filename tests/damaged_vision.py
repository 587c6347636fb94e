"""Readers of images, boxes and masks with damaged files, and independent readers of what they take."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests import mutations
from valor_gpu import coco, native
from valor_gpu.inputs import coco as columns
from valor_gpu.inputs.coco_masks import measure_masks, read_masks

HEIGHT, WIDTH = 24, 31
_COMPARED = 2000
"""Polygons of larger coordinates are not given to pycocotools, which has a point of every fifth of a pixel."""


def nothing(value: Any) -> None:
    """Checks nothing."""


class Damaged(NamedTuple):
    """A damaged input: what reads it, and what compares the value with that of another reader."""

    read: Callable[[], Any]
    check: Callable[[Any], None] = nothing


def peers() -> Any:
    """Returns the masks of pycocotools."""
    from pycocotools import mask

    return mask


# ----------------------------------------------------------------------------------------------------------- COCO


def drawn_mask(seed: int) -> NDArray[np.uint8]:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
    top, left = seed % 9, seed % 13
    mask[top : top + 9, left : left + 8] = 1
    mask[seed % HEIGHT, ::3] = 1
    return mask


def runs_of(mask: NDArray[np.uint8]) -> list[int]:
    flat = mask.ravel(order="F")
    ends = [*(np.flatnonzero(np.diff(flat)) + 1).tolist(), flat.size]
    return [0] * int(flat[0]) + np.diff(ends, prepend=0).tolist()


def segmentation(number: int) -> Any:
    """A mask in one of COCO's three forms: polygons, run lengths, compressed ones."""
    x, y = 2 + number % 11, 1 + number % 7
    if number % 3 == 0:
        return [[x, y, x + 9.5, y, x + 9.25, y + 8, x, y + 7.125], [x + 1, y, x + 4, y + 9, x + 7, y]]
    drawn = drawn_mask(number)
    if number % 3 == 1:
        return {"size": [HEIGHT, WIDTH], "counts": runs_of(drawn)}
    return {"size": [HEIGHT, WIDTH], "counts": peers().encode(drawn)["counts"].decode()}


def _annotation(number: int) -> dict[str, Any]:
    points = [[5 + 3 * k + number, 4 + 2 * k, k % 3] for k in range(17)]
    return {
        "id": 100 + number, "image_id": 1 + number % 3, "category_id": 1 + number % 2, "iscrowd": int(number % 5 == 4),
        "bbox": [1.5 + number, 2, 9.25, 8 + number % 3], "area": 70 + number, "segmentation": segmentation(number),
        "keypoints": [value for point in points for value in point], "num_keypoints": 11,
    }  # fmt: skip


def image_record(number: int) -> dict[str, Any]:
    return {
        "id": number, "height": HEIGHT, "width": WIDTH, "file_name": f"{number}.png", "neg_category_ids": [3],
        "not_exhaustive_category_ids": [2] if number == 2 else [],
    }  # fmt: skip


def ground_truth() -> dict[str, Any]:
    """Three images with nine objects, as COCO and LVIS write them."""
    return {
        "info": {"year": 2026}, "images": [*map(image_record, (1, 2, 3))], "annotations": [*map(_annotation, range(9))],
        "categories": [{"id": n, "name": f"c{n}", "frequency": "rcf"[n - 1], "isthing": n % 2} for n in (1, 2, 3)],
    }  # fmt: skip


def results() -> list[dict[str, Any]]:
    """Detections near the objects."""
    found = []
    for number in range(12):
        truth = _annotation(number % 9)
        box = [truth["bbox"][0] + number % 4, *truth["bbox"][1:]]
        kept = {name: truth[name] for name in ("image_id", "category_id", "segmentation", "keypoints")}
        kept["segmentation"] = segmentation(3 * number + 1 + number % 2)
        found.append({**kept, "bbox": box, "score": round(1 / (1 + number), 3)})
    return found


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _same(found: Any, expected: Any, what: str) -> None:
    one, other = np.float64(found), np.float64(expected)
    assert np.array_equal(one, other, equal_nan=True), (what, found, expected)


def check_rows(found: columns.Annotations, records: list[Any], own_ids: bool) -> None:
    """Compares columns with the records that Python's json has, ids where they are those of the file."""
    assert len(found.id) == len(records)
    for row, record in enumerate(records):
        for name in ("image_id", "category_id", "id"):
            if type(record.get(name)) is int and (name != "id" or own_ids):
                kept = getattr(found.texts, name, None) if name != "id" else None
                assert kept is not None or getattr(found, name)[row] == record[name], (row, name)
        box = record.get("bbox")
        if isinstance(box, list) and len(box) == 4 and all(map(is_number, box)):
            _same(found.bbox[row], [*map(_float, box)], f"{row} bbox")
        for name in ("area", "score"):
            if is_number(record.get(name)) and (name != "area" or "score" not in record):
                _same(getattr(found, name)[row], _float(record[name]), f"{row} {name}")


def expected_mask(value: Any) -> Any:
    """The mask by pycocotools; None where it is not asked, as of polygons far outside."""
    if isinstance(value, list):
        if not value or not all(value):  # pycocotools takes no object, or a polygon of no points, for something else
            return None
        flat = [number for ring in value for number in ring]
        if any(abs(number) > _COMPARED for number in flat):
            return None
        rings = [[float(number) for number in ring] for ring in value]
        return peers().decode(peers().merge(peers().frPyObjects(rings, HEIGHT, WIDTH)))
    height, width = map(int, value["size"])
    if height * width > 10**6 or not value["counts"]:  # of no counts pycocotools gives what memory held before
        return None
    if isinstance(value["counts"], list):
        rle = {"size": [height, width], "counts": [int(count) for count in value["counts"]]}
        return peers().decode(peers().frPyObjects(rle, height, width))
    return peers().decode({"size": [height, width], "counts": value["counts"]})


def _check_masks(found: tuple[columns.Annotations, Any, Any], data: bytes) -> None:
    rows, runs, measures = found
    records = json.loads(data.decode("utf-8-sig"))
    own_ids = isinstance(records, dict)
    records = records.get("annotations", []) if own_ids else records
    check_rows(rows, records, own_ids)
    if runs is None:
        return
    sizes = {tuple(size) for size in runs.sizes.tolist()}
    for row, record in enumerate(records):
        if record.get("segmentation") is None or sizes != {(HEIGHT, WIDTH)}:
            continue
        mask = expected_mask(record["segmentation"])
        if mask is not None:
            one = runs.counts[runs.offsets[row] : runs.offsets[row + 1]]
            dense = np.repeat(np.arange(len(one)) % 2, one).reshape(mask.shape, order="F")
            assert np.array_equal(dense, mask), row
            assert measures.areas[row] == mask.sum(), row


def _with_masks(rows: columns.Annotations, count: int) -> tuple[columns.Annotations, Any, Any]:
    """The rows, and the masks of all of them where each has one."""
    every = np.arange(count)
    if not rows.has("segmentation").all():
        return rows, None, None
    return rows, read_masks(rows, every), measure_masks(rows, every)


def coco_masks(rng: random.Random, folder: Path) -> Damaged:
    """Columns, run lengths and areas of a ground truth."""
    data = mutations.changed_json(rng, ground_truth(), results())
    path = folder / "gt.json"
    path.write_bytes(data)

    def read() -> Any:
        found = columns.read_ground_truth(path, threads=rng.randrange(1, 3))
        return _with_masks(found.annotations, len(found.annotations.id))

    return Damaged(read, lambda found: _check_masks(found, data))


def coco_results(rng: random.Random, folder: Path) -> Damaged:
    """Columns of results, their masks alone."""
    document = rng.choice((results(), [{**each, "bbox": [1, 2, 3, 4, 0.5]} for each in results()]))
    data = mutations.changed_json(rng, document, ground_truth())
    path = folder / "dt.json"
    path.write_bytes(data)

    def read() -> Any:
        rows = columns.read_result_rows(path, threads=rng.randrange(1, 3))
        return _with_masks(rows, len(rows.id))

    return Damaged(read, lambda found: _check_masks(found, data))


def damaged_pair(rng: random.Random, folder: Path) -> tuple[Path, Path]:
    """Files of ground truths and results, one of them damaged or both."""
    which = rng.randrange(5)
    truth, found = ground_truth(), results()
    if rng.random() < 0.15:
        truth, found = _text_ids(truth, found)
    for name, document, kept in (("gt", truth, which < 2), ("dt", found, which in (2, 3))):
        text = json.dumps(document).encode() if kept else mutations.changed_json(rng, document, truth)
        (folder / f"{name}.json").write_bytes(text)
    return folder / "gt.json", folder / "dt.json"


def _text_ids(truth: dict[str, Any], found: list[Any]) -> tuple[dict[str, Any], list[Any]]:
    for record in (*truth["annotations"], *found):
        record["image_id"] = f"img {record['image_id']}"
    for record in truth["images"]:
        record["id"] = f"img {record['id']}"
    return truth, found


def _coco_stats(paths: tuple[Path, Path], kind: str) -> Any:
    truth = coco.COCO(paths[0])
    evaluation = coco.COCOeval(truth, truth.loadRes(str(paths[1])), kind)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation.stats


def _check_stats(stats: Any, paths: tuple[Path, Path], kind: str) -> None:
    """Compares with pycocotools, where that gives numbers."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    if kind != "bbox":
        return
    try:
        truth = COCO(str(paths[0]))
        theirs = COCOeval(truth, truth.loadRes(str(paths[1])), kind)
        theirs.evaluate()
        theirs.accumulate()
        theirs.summarize()
    except Exception:
        return
    assert np.array_equal(stats, theirs.stats, equal_nan=True), (stats, theirs.stats)


def coco_evaluation(rng: random.Random, folder: Path) -> Damaged:
    """The evaluation of boxes, masks, keypoints or rotated boxes of two files."""
    paths, kind = damaged_pair(rng, folder), rng.choice(("bbox", "segm", "keypoints", "bbox", "rotated"))
    compared = rng.random() < 0.3
    return Damaged(
        lambda: _coco_stats(paths, kind), lambda stats: _check_stats(stats, paths, kind) if compared else None
    )


def lvis_evaluation(rng: random.Random, folder: Path) -> Damaged:
    """The federated evaluation of boxes or masks of two files."""
    paths, kind = damaged_pair(rng, folder), rng.choice(("bbox", "segm"))

    def read() -> Any:
        evaluation = coco.LVISEval(coco.LVIS(str(paths[0])), str(paths[1]), kind)
        evaluation.run()
        return evaluation.get_results()

    return Damaged(read)


def without_native(make: Callable[[random.Random, Path], Damaged]) -> Callable[[random.Random, Path], Damaged]:
    """The same reader where the native library serves no file."""

    def made(rng: random.Random, folder: Path) -> Damaged:
        damaged = make(rng, folder)

        def read() -> Any:
            usable = native.usable
            native.usable = lambda name: False  # type: ignore[assignment]
            try:
                return damaged.read()
            finally:
                native.usable = usable

        return Damaged(read, damaged.check)

    return made
