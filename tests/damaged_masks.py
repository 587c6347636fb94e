"""Readers of masks, label maps and panoptic segments with damaged inputs, and independent readers of what they take."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import mutations
from tests.damaged_vision import (
    HEIGHT,
    WIDTH,
    Damaged,
    drawn_mask,
    expected_mask,
    ground_truth,
    image_record,
    is_number,
    nothing,
    runs_of,
    segmentation,
)
from valor_gpu import coco
from valor_gpu.inputs.label_map_files import LabelMapReader, array_of_bytes
from valor_gpu.inputs.masks import Masks
from valor_gpu.inputs.panoptic_files import read_panoptic_json
from valor_gpu.segmentation.coco_panoptic import evaluate_files

# ----------------------------------------------------------------------------------------------- masks as objects


def _changed_rle(rng: random.Random) -> Any:
    runs = runs_of(drawn_mask(rng.randrange(20)))
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
                expected = expected_mask({**mask, "size": [height, width]})
                expected = np.zeros((height, width), np.uint8) if expected is None else expected
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
                isinstance(ring, list) and all(map(is_number, ring)) for ring in value
            )
            if (flat_rings or isinstance(value, dict)) and (expected := expected_mask(value)) is not None:
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
        "images": [image_record(n) for n in (1, 2)], "categories": ground_truth()["categories"],
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
