"""Readers of images, boxes and masks with damaged files, and independent readers of what they take."""

from __future__ import annotations

import copy
import io
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
from valor_gpu.inputs.label_map_files import LabelMapReader, array_of_bytes
from valor_gpu.inputs.masks import Masks
from valor_gpu.inputs.panoptic_files import read_panoptic_json
from valor_gpu.segmentation.coco_panoptic import evaluate_files

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


def _mask(seed: int) -> NDArray[np.uint8]:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
    top, left = seed % 9, seed % 13
    mask[top : top + 9, left : left + 8] = 1
    mask[seed % HEIGHT, ::3] = 1
    return mask


def _counts(mask: NDArray[np.uint8]) -> list[int]:
    flat = mask.ravel(order="F")
    ends = [*(np.flatnonzero(np.diff(flat)) + 1).tolist(), flat.size]
    return [0] * int(flat[0]) + np.diff(ends, prepend=0).tolist()


def segmentation(number: int) -> Any:
    """A mask in one of COCO's three forms: polygons, run lengths, compressed ones."""
    x, y = 2 + number % 11, 1 + number % 7
    if number % 3 == 0:
        return [[x, y, x + 9.5, y, x + 9.25, y + 8, x, y + 7.125], [x + 1, y, x + 4, y + 9, x + 7, y]]
    mask = _mask(number)
    if number % 3 == 1:
        return {"size": [HEIGHT, WIDTH], "counts": _counts(mask)}
    return {"size": [HEIGHT, WIDTH], "counts": peers().encode(mask)["counts"].decode()}


def _annotation(number: int) -> dict[str, Any]:
    points = [[5 + 3 * k + number, 4 + 2 * k, k % 3] for k in range(17)]
    return {
        "id": 100 + number, "image_id": 1 + number % 3, "category_id": 1 + number % 2, "iscrowd": int(number % 5 == 4),
        "bbox": [1.5 + number, 2, 9.25, 8 + number % 3], "area": 70 + number, "segmentation": segmentation(number),
        "keypoints": [value for point in points for value in point], "num_keypoints": 11,
    }  # fmt: skip


def _image(number: int) -> dict[str, Any]:
    return {
        "id": number, "height": HEIGHT, "width": WIDTH, "file_name": f"{number}.png", "neg_category_ids": [3],
        "not_exhaustive_category_ids": [2] if number == 2 else [],
    }  # fmt: skip


def ground_truth() -> dict[str, Any]:
    """Three images with nine objects, as COCO and LVIS write them."""
    return {
        "info": {"year": 2026}, "images": [_image(n) for n in (1, 2, 3)], "annotations": [*map(_annotation, range(9))],
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


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _same(found: Any, expected: Any, what: str) -> None:
    one, other = np.float64(found), np.float64(expected)
    assert np.array_equal(one, other, equal_nan=True), (what, found, expected)


def check_rows(found: columns.Annotations, records: list[Any]) -> None:
    """Compares columns with the records that Python's json has."""
    assert len(found.id) == len(records)
    for row, record in enumerate(records):
        for name in ("image_id", "category_id", "id"):
            if type(record.get(name)) is int and not (name == "id" and record.get("score") is not None):
                kept = getattr(found.texts, name, None) if name != "id" else None
                assert kept is not None or getattr(found, name)[row] == record[name], (row, name)
        box = record.get("bbox")
        if isinstance(box, list) and len(box) == 4 and all(map(_is_number, box)):
            _same(found.bbox[row], [*map(_float, box)], f"{row} bbox")
        for name in ("area", "score"):
            if _is_number(record.get(name)) and (name != "area" or "score" not in record):
                _same(getattr(found, name)[row], _float(record[name]), f"{row} {name}")


def _expected_mask(value: Any) -> Any:
    """The mask by pycocotools; None where it is not asked, as of polygons far outside."""
    if isinstance(value, list):
        flat = [number for ring in value for number in ring]
        if any(abs(number) > _COMPARED for number in flat):
            return None
        rings = [[float(number) for number in ring] for ring in value]
        return peers().decode(peers().merge(peers().frPyObjects(rings, HEIGHT, WIDTH)))
    height, width = map(int, value["size"])
    if height * width > 10**6:
        return None
    if isinstance(value["counts"], list):
        rle = {"size": [height, width], "counts": [int(count) for count in value["counts"]]}
        return peers().decode(peers().frPyObjects(rle, height, width))
    return peers().decode({"size": [height, width], "counts": value["counts"]})


def _check_masks(found: tuple[columns.Annotations, Any, Any], data: bytes) -> None:
    rows, runs, measures = found
    records = json.loads(data.decode("utf-8-sig"))
    records = records["annotations"] if isinstance(records, dict) else records
    check_rows(rows, records)
    if runs is None:
        return
    sizes = {tuple(size) for size in runs.sizes.tolist()}
    for row, record in enumerate(records):
        if record.get("segmentation") is None or sizes != {(HEIGHT, WIDTH)}:
            continue
        mask = _expected_mask(record["segmentation"])
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


# ----------------------------------------------------------------------------------------------- masks as objects


def _changed_rle(rng: random.Random) -> Any:
    runs = _counts(_mask(rng.randrange(20)))
    runs = mutations.changed_runs(rng, runs) if rng.random() < 0.7 else runs
    found: Any = {"size": [HEIGHT, WIDTH], "counts": runs}
    if rng.random() < 0.5:
        return mutations.changed(rng, found) if rng.random() < 0.4 else found
    found["counts"] = mutations.packed_runs(rng, runs)
    if rng.random() < 0.4:
        found["counts"] = mutations.changed_counts(rng, found["counts"])
    if rng.random() < 0.1:
        found["size"] = mutations.changed(rng, {"size": found["size"]}, {"size": found["size"]}).get("size")
    if rng.random() < 0.3:
        found["counts"] = found["counts"].decode("latin-1")
    return found


def run_lengths(rng: random.Random, folder: Path) -> Damaged:
    """What ``valor_gpu.coco.mask`` makes of one or a few dicts."""
    masks = [_changed_rle(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    whole: Any = masks[0] if len(masks) == 1 and rng.random() < 0.5 else masks
    task = rng.choice(("decode", "area", "toBbox", "iou", "merge"))

    def read() -> Any:
        ours = coco.mask
        if task == "iou":
            return ours.iou(masks, masks, [0] * len(masks))
        return getattr(ours, task)(masks if task == "merge" else whole)

    def check(value: Any) -> None:
        if task not in ("decode", "area") or not all(isinstance(mask, dict) for mask in masks):
            return
        for place, mask in enumerate(masks):
            height, width = (int(side) for side in mask["size"])
            if 0 < height * width <= 10**6:
                expected = _expected_mask({**mask, "size": [height, width]})
                if task == "area":
                    assert np.ravel(value)[place] == expected.sum(), mask
                else:
                    dense = value[..., place] if value.ndim == 3 else value
                    assert np.array_equal(dense, expected), mask

    return Damaged(read, check)


def _moved(rng: random.Random, value: Any) -> Any:
    """Polygons with a few coordinates elsewhere, far outside too; run lengths changed."""
    if not isinstance(value, list):
        return _changed_rle(rng)
    for _ in range(rng.randrange(4)):
        ring = rng.choice(value)
        ring[rng.randrange(len(ring))] = rng.choice(
            (0, -0.5, 1e-9, 15.5, 31, 99.75, -1000, 1e5, -2e8, 2e8, 2.1e8, 1e19)
        )
    return value


def polygons(rng: random.Random, folder: Path) -> Damaged:
    """Masks of changed polygons and run lengths by both rules, their boxes and overlaps."""
    whole = [segmentation(rng.randrange(30)) for _ in range(rng.randrange(1, 4))]
    whole = mutations.changed(rng, whole) if rng.random() < 0.5 else [_moved(rng, each) for each in whole]
    rule, size = rng.choice(("coco", "coco", "centre")), rng.choice(([HEIGHT, WIDTH], [HEIGHT, WIDTH], None, [0, 3]))
    if rng.random() < 0.2:
        size = mutations.changed(rng, [HEIGHT, WIDTH])

    def read() -> Any:
        masks = Masks.of(whole, size, rule)
        return masks, masks.dense() if masks.sizes.prod(axis=1).sum() < 10**7 else None

    def check(found: Any) -> None:
        if rule != "coco" or size != [HEIGHT, WIDTH] or found[1] is None or not isinstance(whole, list):
            return
        for place, value in enumerate(whole):
            flat_rings = isinstance(value, list) and all(
                isinstance(ring, list) and all(map(_is_number, ring)) for ring in value
            )
            if (flat_rings or isinstance(value, dict)) and (expected := _expected_mask(value)) is not None:
                assert np.array_equal(np.asarray(found[1][place]), expected), value

    return Damaged(read, check)


# ------------------------------------------------------------------------------------------------------ label maps


def _labels(rng: random.Random) -> NDArray[Any]:
    generator = np.random.default_rng(rng.randrange(99))
    return generator.integers(0, 4, (generator.integers(1, 20), generator.integers(1, 30))).astype(
        rng.choice((np.uint8, np.uint16))
    )


def _png(rng: random.Random) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    labels = _labels(rng)
    if rng.random() < 0.3:
        labels = np.repeat(labels.astype(np.uint8)[:, :, None], 3, 2)
    picture = Image.fromarray(labels)
    if labels.dtype == np.uint8 and labels.ndim == 2:
        picture = picture.convert(rng.choice(("L", "L", "P", "1", "LA", "RGBA")))
    picture.save(out, "PNG", compress_level=rng.choice((0, 9)))
    return out.getvalue()


def _check_png(found: NDArray[Any], data: bytes) -> None:
    """Compares with Pillow, which multiplies grey of 1, 2 and 4 bits."""
    from PIL import Image

    depth, color = data[24], data[25]
    if color == 0 and depth < 8:
        return
    try:
        theirs = np.asarray(Image.open(io.BytesIO(data)))
    except Exception:
        return
    if theirs.shape == found.shape:
        assert np.array_equal(found, theirs)


def png_label_maps(rng: random.Random, folder: Path) -> Damaged:
    """The label map of a PNG."""
    data = mutations.changed_png(rng, _png(rng))
    path = folder / "a.png"
    path.write_bytes(data)
    return Damaged(lambda: LabelMapReader().read(str(path)), lambda found: _check_png(found, data))


def numpy_label_maps(rng: random.Random, folder: Path) -> Damaged:
    """The label map or logits of npy and npz."""
    data, form = mutations.changed_npy(rng, _labels(rng)), rng.choice(("npy", "npz"))
    if form == "npz":
        data = mutations.zipped(rng, {"a.npy": data, **({"b.npy": data} if rng.random() < 0.1 else {})})
    path = folder / f"a.{form}"
    path.write_bytes(data)
    whole = rng.random() < 0.3

    def read() -> Any:
        return array_of_bytes("a", data, form) if whole else LabelMapReader(logits=True).read(str(path))

    def check(found: Any) -> None:
        try:
            theirs = np.load(io.BytesIO(data))
            theirs = theirs if form == "npy" else theirs[theirs.files[0]]
        except Exception:
            return
        assert np.array_equal(found, theirs, equal_nan=found.dtype.kind in "fc")

    return Damaged(read, check)


# ------------------------------------------------------------------------------------------------------- panoptic


def _panoptic() -> dict[str, Any]:
    segments = [{"id": k, "category_id": 1 + k % 3, "iscrowd": int(k == 4), "area": 90 * k} for k in (1, 2, 3, 4)]
    return {
        "images": [_image(n) for n in (1, 2)], "categories": ground_truth()["categories"],
        "annotations": [
            {"image_id": n, "file_name": f"{n}.png", "segments_info": copy.deepcopy(segments)} for n in (1, 2)
        ],
    }  # fmt: skip


def segments_png(number: int) -> bytes:
    from PIL import Image

    ids = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    ids[..., 0] = 1 + (np.arange(HEIGHT)[:, None] * 4 // HEIGHT + number * (np.arange(WIDTH) > 20)) % 4
    out = io.BytesIO()
    Image.fromarray(ids).save(out, "PNG")
    return out.getvalue()


def write_panoptic(
    folder: Path, side: str, text: bytes | None = None, change: Callable[[bytes], bytes] = bytes
) -> None:
    """Writes one side of panoptic segments: its JSON and a PNG for each image."""
    (folder / side).mkdir(exist_ok=True)
    (folder / f"{side}.json").write_bytes(json.dumps(_panoptic()).encode() if text is None else text)
    for number in (1, 2):
        (folder / side / f"{number}.png").write_bytes(change(segments_png(number * (side == "pred"))))


def panoptic(rng: random.Random, folder: Path) -> Damaged:
    """The panoptic quality of two files and their PNGs."""
    which = rng.randrange(4)
    for side, changed in (("gt", which in (0, 2)), ("pred", which in (1, 2))):
        text = mutations.changed_json(rng, _panoptic(), ground_truth()) if changed else None
        write_panoptic(
            folder, side, text,
            lambda data: mutations.changed_png(rng, data) if which == 3 and rng.random() < 0.5 else data,
        )  # fmt: skip

    def read() -> Any:
        truth = read_panoptic_json(str(folder / "gt.json"), True)
        found = read_panoptic_json(str(folder / "pred.json"), False)
        folders = str(folder / "gt"), str(folder / "pred")
        return evaluate_files(truth, found, folders, 1, nothing).result()

    return Damaged(read, lambda result: result.to_dict())


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
