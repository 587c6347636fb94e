"""Mean average precision of masks: as torchmetrics and pycocotools have it, from dense masks and from run lengths."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics.detection import MeanAveragePrecision as TorchmetricsMAP

from testing.oracles import pycocotools
from tests.fuzz import seeds
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.detection.masks import BoundaryRows
from valor_gpu.errors import InputError, SyncError
from valor_gpu.inputs import Masks
from valor_gpu.ops.assign.match_batch import MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.masks.op import pack_masks

Batch = tuple[list[dict[str, Any]], list[dict[str, Any]]]
GRIDS = dict(iou_thresholds=np.linspace(0.5, 0.95, 10).tolist(), rec_thresholds=np.linspace(0, 1, 101).tolist())
BOTH = ("bbox", "segm")


def coco_mask() -> Any:
    return pycocotools("mask")


def _masks(rng: np.random.Generator, count: int, size: tuple[int, int]) -> Tensor:
    """Rectangles with noisy edges; one in eight is empty."""
    height, width = size
    rows, columns = np.mgrid[:height, :width]
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        top, left = rng.random(2) * [height * 0.6, width * 0.6]
        inside = (rows >= top) & (rows < top + height * 0.5) & (columns >= left) & (columns < left + width * 0.5)
        mask[:] = inside & (rng.random((height, width)) < 0.9) & (rng.random() > 0.125)
    return torch.from_numpy(masks)


def _boxes(masks: Tensor) -> Tensor:
    """float32 xywh boxes near the masks."""
    out = torch.zeros(len(masks), 4)
    for box, mask in zip(out, masks):
        ys, xs = mask.nonzero(as_tuple=True)
        if len(xs):
            low_x, low_y, high_x, high_y = int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1
            box[:] = torch.tensor([low_x, low_y, high_x - low_x, high_y - low_y])
    return out


def scene(seed: int, images: int = 6, areas: bool = True) -> Batch:
    """Dense masks of three classes, of other sizes from image to image; some images without rows on a side."""
    rng = np.random.default_rng(seed)
    preds, target = [], []
    for image in range(images):
        n, m = (int(x) for x in rng.integers(0, 7, 2))
        size = (int(rng.integers(8, 120)), int(rng.integers(8, 150)))
        gts = _masks(rng, m, size)
        labels, at = rng.integers(0, 3, m), rng.integers(0, max(m, 1), n)
        near = gts[torch.from_numpy(at)] if m else _masks(rng, n, size)
        same = labels[at] if m else rng.integers(0, 3, n)
        found = torch.where(torch.from_numpy(rng.random((n, 1, 1)) < 0.2), _masks(rng, n, size), near)
        found = found ^ torch.from_numpy(rng.random(found.shape) < 0.05)
        preds.append({"masks": found, "boxes": _boxes(found), "scores": torch.from_numpy(rng.random(n)).float(),
                      "labels": torch.from_numpy(np.where(rng.random(n) < 0.8, same, 0))})  # fmt: skip
        crowd = torch.from_numpy((rng.random(m) < 0.15).astype(np.int64))
        target.append({"masks": gts, "boxes": _boxes(gts), "labels": torch.from_numpy(labels),
                       "iscrowd": crowd, "image_id": 7 * image})  # fmt: skip
        if areas and m:
            target[-1]["area"] = torch.from_numpy(rng.integers(0, 3, m) * 700.0)  # 0: of the mask
    return preds, target


def coded(batch: Batch, form: str) -> Batch:
    """The masks as run lengths."""

    def encode(mask: Tensor) -> dict[str, Any]:
        rle = coco_mask().encode(np.asfortranarray(mask.numpy().astype(np.uint8)))
        if form == "list":
            flat = mask.numpy().T.reshape(-1)
            edges = np.flatnonzero(np.diff(np.concatenate(([False], flat)).astype(np.int8)))
            return {"size": list(mask.shape), "counts": np.diff(np.concatenate(([0], edges, [flat.size]))).tolist()}
        return {**rle, "counts": rle["counts"].decode()} if form == "str" else rle

    sides = [[{**item, "masks": [encode(mask) for mask in item["masks"]]} for item in side] for side in batch]
    return sides[0], sides[1]


def evaluate(batch: Batch, size: int = 4, **choices: Any) -> dict[str, Any]:
    metric = MeanAveragePrecision("xywh", **choices)
    for at in range(0, len(batch[0]), size):
        metric.update(batch[0][at : at + size], batch[1][at : at + size])
    return metric.compute()


def assert_same(mine: dict[str, Any], other: dict[str, Any]) -> None:
    assert set(mine) == set(other)
    for name, value in other.items():
        if name.endswith("ious"):
            assert mine[name].keys() == value.keys()
            for cell, table in value.items():
                assert torch.equal(torch.as_tensor(mine[name][cell]), torch.as_tensor(table)), (name, cell)
        else:
            assert torch.equal(mine[name], value) and mine[name].dtype == value.dtype, name


CHOICES = [{}, dict(extended_summary=True), dict(average="micro", class_metrics=True), dict(class_metrics=True)]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("iou_type", ["segm", BOTH, ("segm", "bbox")])
@pytest.mark.parametrize("seed", seeds(2))
def test_arrival_order_equals_torchmetrics(iou_type: Any, choices: dict[str, Any], seed: int) -> None:
    preds, target = scene(seed)
    filled = [i for i, item in enumerate(zip(preds, target)) if all(len(side["labels"]) for side in item)]
    batch = [preds[i] for i in filled], [target[i] for i in filled]  # torchmetrics leaves out images without masks
    theirs = TorchmetricsMAP("xywh", iou_type=iou_type, **choices, **GRIDS)
    theirs.update(*batch)
    plain = batch[0], [{k: v for k, v in item.items() if k != "image_id"} for item in batch[1]]
    mine = evaluate(plain, iou_type=iou_type, tie_order="arrival", **choices, **GRIDS)
    other = theirs.compute()
    if choices.get("average") == "micro" and isinstance(iou_type, tuple):
        # torchmetrics evaluates the second type class by class once it has computed metrics of classes
        first = [name for name in other if not name.startswith(iou_type[1])]
        mine, other = ({name: values[name] for name in first} for values in (mine, other))
    assert_same(mine, other)


@pytest.mark.parametrize("form", ["str", "bytes", "list"])
@pytest.mark.parametrize("choices", CHOICES[1:3])
def test_run_lengths_give_what_dense_masks_give(form: str, choices: dict[str, Any]) -> None:
    dense = evaluate(scene(3), iou_type=BOTH, **choices)
    assert 0.1 < float(dense["segm_map"]) < 0.95
    assert_same(evaluate(coded(scene(3), form), iou_type=BOTH, **choices), dense)
    mixed = coded(scene(3), form)[0], scene(3)[1]
    assert_same(evaluate(mixed, iou_type=BOTH, **choices), dense)


def _words(masks: Tensor, as_tensor: bool) -> Masks:
    words = pack_masks(masks).words
    return Masks.from_words(words if as_tensor else words.numpy(), masks.shape[1:])


def _read_only(masks: Tensor) -> Masks:
    array = masks.numpy().copy()[:, ::-1]
    array.flags.writeable = False
    return Masks.of(array[:, ::-1])


FORMS: dict[str, Any] = {
    "dense": lambda masks: masks,
    "bytes": lambda masks: [coco_mask().encode(np.asfortranarray(mask)) for mask in masks.numpy().astype(np.uint8)],
    "Masks of a tensor": Masks.of,
    "Masks of an array": lambda masks: Masks.of(masks.numpy().transpose(0, 2, 1).copy().transpose(0, 2, 1)),
    "Masks of a read-only array": _read_only,
    "Masks of run lengths": lambda masks: Masks.from_runs(Masks.of(masks).runs()),
    "Masks of words": lambda masks: _words(masks, False),
    "Masks of words of a tensor": lambda masks: _words(masks, True),
}


def reshaped(batch: Batch, forms: list[str], gt_forms: list[str]) -> Batch:
    """The masks in other forms, which take turns from image to image."""
    preds, target = (
        [{**item, "masks": FORMS[names[i % len(names)]](item["masks"])} for i, item in enumerate(side)]
        for side, names in zip(batch, (forms, gt_forms))
    )
    return preds, target


@pytest.mark.parametrize("form", [name for name in FORMS if name.startswith("Masks")])
def test_masks_of_any_form_give_what_dense_masks_give(form: str) -> None:
    choices: dict[str, Any] = dict(iou_type=("segm", "boundary"), average="micro", extended_summary=True)
    dense = evaluate(scene(3), **choices)
    for forms in (([form], [form]), (["dense"], [form]), ([form], ["bytes", "dense"])):
        assert_same(evaluate(reshaped(scene(3), *forms), **choices), dense)


def test_forms_may_differ_from_image_to_image() -> None:
    dense = evaluate(scene(4, images=9), iou_type=BOTH, size=9)
    names = list(FORMS)
    assert_same(evaluate(reshaped(scene(4, images=9), names, names[::-1]), iou_type=BOTH, size=9), dense)


def _polygons(rng: np.random.Generator, count: int, size: tuple[int, int]) -> list[list[list[float]]]:
    """One or two rings for each mask, partly outside the image."""
    scale = np.tile(np.array(size[::-1]) * 1.2, 5)
    return [[(rng.random(10) * scale).tolist() for _ in range(rng.integers(1, 3))] for _ in range(count)]


POLYGONS: dict[str, Any] = {
    "list": lambda masks, size: {"masks": masks, "size": list(size)},
    "list and size of a tensor": lambda masks, size: {"masks": masks, "size": torch.tensor(size)},
    "corners": lambda masks, size: {"masks": [[np.reshape(r, (-1, 2)) for r in m] for m in masks], "size": size},
    "multipolygons": lambda masks, size: {"masks": tuple([rings] for rings in masks), "size": np.array(size)},
    "Masks": lambda masks, size: {"masks": Masks.of(masks, size)},
    "beside run lengths": lambda masks, size: {
        "masks": [coco_mask().merge(coco_mask().frPyObjects(m, *size)) if i % 2 else m for i, m in enumerate(masks)],
        "size": size,
    },
}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("form", POLYGONS)
def test_polygons_give_what_pycocotools_draws(form: str) -> None:
    rng = np.random.default_rng(13)
    sides: list[Batch] = [([], []), ([], [])]  # dense, polygons
    for size in ((60, 70), (31, 90), (64, 20)):
        gts = _polygons(rng, 5, size)
        for side, masks in enumerate((_polygons(rng, 3, size) + gts[:4], gts)):
            drawn = [coco_mask().decode(coco_mask().merge(coco_mask().frPyObjects(rings, *size))) for rings in masks]
            labels = [0, 1, 0, 1, 0] if side else [0, 1, 0, 0, 1, 0, 1]
            item = {"labels": torch.tensor(labels), "scores": torch.linspace(0.1, 0.9, len(masks))}
            sides[0][side].append({**item, "masks": torch.from_numpy(np.stack(drawn))})
            sides[1][side].append({**item, **POLYGONS[form](masks, size)})
    dense = evaluate(sides[0], iou_type="segm")
    assert 0 < float(dense["map"]) < 1
    assert_same(evaluate(sides[1], iou_type="segm"), dense)
    assert_same(evaluate((sides[1][0], sides[0][1]), iou_type="segm"), dense)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_label_maps_and_logits(as_tensor: bool) -> None:
    rng = np.random.default_rng(14)
    logits = torch.from_numpy(rng.random((1, 4, 20, 30)))
    truth = torch.where(torch.from_numpy(rng.random((20, 30)) < 0.2), torch.randint(4, (20, 30)), logits[0].argmax(0))
    row = {"labels": torch.arange(4), "scores": torch.linspace(0.1, 0.9, 4)}
    pair = [t if as_tensor else t.numpy() for t in (logits, truth)]
    forms = Masks.from_logits(pair[0], classes=range(4)), Masks.from_label_map(pair[1], classes=range(4))
    dense = [torch.stack([labels == c for c in range(4)]) for labels in (logits[0].argmax(0), truth)]
    values = [
        evaluate(([{**row, "masks": a}], [{**row, "masks": b}]), iou_type="segm") for a, b in (forms, tuple(dense))
    ]
    assert 0.3 < float(values[1]["map"]) < 1
    assert_same(*values)


def test_a_size_beside_run_lengths_is_none_of_theirs() -> None:
    """Targets of DETR have a key of that name."""
    batch = coded(scene(3), "str")
    expected = evaluate(batch, iou_type="segm")
    for item in batch[1]:
        item["size"] = torch.tensor([800, 800])
    assert_same(evaluate(batch, iou_type="segm"), expected)


def test_a_metric_of_two_types_is_two_metrics() -> None:
    batch = scene(5, areas=True)
    for item in batch[1]:
        item["area"] = torch.full((len(item["labels"]),), 500.0)
    both = evaluate(batch, iou_type=BOTH, class_metrics=True)
    for name in BOTH:
        alone = evaluate(batch, iou_type=name, class_metrics=True)
        assert_same(
            {k.removeprefix(f"{name}_"): v for k, v in both.items() if k.startswith(name) or k == "classes"}, alone
        )
    result = MeanAveragePrecision("xywh", iou_type=BOTH)
    result.update(*batch)
    values = result.result().values
    assert values["segm_map"] == pytest.approx(float(both["segm_map"])) and "bbox_map" in values


def test_the_area_of_an_empty_mask_is_0_for_its_box_too() -> None:
    row = {"masks": torch.zeros(1, 50, 50, dtype=torch.bool), "boxes": torch.tensor([[0.0, 0.0, 40.0, 40.0]]),
           "labels": torch.tensor([1]), "scores": torch.ones(1)}  # fmt: skip
    theirs = TorchmetricsMAP("xywh", iou_type=BOTH, **GRIDS)
    theirs.update([row], [row])
    mine = evaluate(([row], [row]), iou_type=BOTH)
    assert float(mine["bbox_map_small"]) > 0.9 and float(mine["bbox_map_medium"]) == -1
    assert_same(mine, theirs.compute())


def test_order_and_batches_change_no_bit() -> None:
    preds, target = scene(6, images=9)
    first = evaluate((preds, target), iou_type="segm", size=9)
    order = np.random.default_rng(0).permutation(9)
    assert_same(evaluate(([preds[i] for i in order], [target[i] for i in order]), iou_type="segm", size=2), first)


def test_values_other_than_0_are_set() -> None:
    batch = scene(7)
    loud = [[{**item, "masks": item["masks"].to(torch.uint8) * 200} for item in side] for side in batch]
    assert_same(evaluate((loud[0], loud[1]), iou_type="segm"), evaluate(batch, iou_type="segm"))


@pytest.mark.parametrize("empty", [torch.tensor([]), torch.zeros(0, 5, 5, dtype=torch.bool), [], torch.zeros(0, 1)])
def test_images_without_rows_may_have_any_empty_masks(empty: Any) -> None:
    none = {"masks": empty, "labels": torch.zeros(0, dtype=torch.int64)}
    one = {"masks": torch.ones(1, 4, 4, dtype=torch.bool), "labels": torch.tensor([1])}
    scores = {0: torch.zeros(0), 1: torch.ones(1)}
    metric = MeanAveragePrecision(iou_type="segm")
    for pred, true in ((none, none), (none, one), (one, none), (one, one)):
        metric.update([{**pred, "scores": scores[len(pred["labels"])]}], [true])
    assert 0 < float(metric.compute()["map"]) <= 0.51


def test_without_data() -> None:
    metric = MeanAveragePrecision(iou_type=BOTH, extended_summary=True)
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        values = metric.compute()
    assert float(values["bbox_map"]) == float(values["segm_map"]) == -1 and values["segm_ious"] == {}


def test_states_merge_travel_and_tell_types_apart() -> None:
    preds, target = scene(8)
    whole, parts = MeanAveragePrecision("xywh", BOTH), [MeanAveragePrecision("xywh", BOTH) for _ in range(2)]
    whole.update(preds, target)
    for at, metric in enumerate(parts):
        metric.update(preds[at::2], target[at::2])
    merged = pickle.loads(pickle.dumps(parts[0]))
    merged.merge_state(parts[1].to_bytes())
    assert_same(merged.compute(), whole.compute())
    assert_same(copy.deepcopy(whole).compute(), whole.compute())
    for other in ("segm", ("segm", "bbox")):
        with pytest.raises(SyncError, match="iou_type"):
            MeanAveragePrecision("xywh", other).merge_state(parts[0].to_bytes())


def test_foreign_states_are_checked() -> None:
    metric = MeanAveragePrecision("xywh", BOTH, extended_summary=True)
    metric.update(*scene(9))
    for name, change, message in (
        ("ious", lambda t: t * np.nan, "state field ious.* must be finite"),
        ("ious", lambda t: t[1:], "state field ious must have .* rows, as images says"),
        ("images", lambda t: torch.cat((t[:, :8], t[:, 8:].flip(0)), 1), "state field"),
    ):
        state = {**metric.metric_state}
        state[name] = [change(torch.cat(list(state[name])))]
        with pytest.raises(InputError, match=message):
            MeanAveragePrecision("xywh", BOTH, extended_summary=True).merge_state(state)


_ONE = {"masks": torch.ones(1, 4, 6, dtype=torch.bool), "labels": torch.tensor([1]), "scores": torch.ones(1)}
_RLE = {"size": [4, 6], "counts": [0, 24]}
_SQUARE = [[0, 0, 4, 0, 4, 4, 0, 4]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masks": torch.ones(1, 1, 4, 6)}, r"MASKS must have .* but got \[1, 1, 4, 6\]: masks.squeeze\(1\) > 0.5$"),
        ({"masks": torch.ones(1, 1, 4, 6).bool()}, r"MASKS must .* got \[1, 1, 4, 6\]: masks.squeeze\(1\)$"),
        ({"masks": torch.ones(1, 4, 6).half()}, r"MASKS must be bool or uint8 but is torch.float16"),
        ({"masks": torch.ones(2, 4, 6).bool()}, r"MASKS must have shape \[1, H, W\], .* got \[2, 4, 6\]"),
        ({"masks": torch.ones(1, 6, 4).bool()}, r"TARGET_MASKS must have the size of MASKS, \[6, 4\]"),
        ({"masks": torch.ones(4, 6).bool()}, r"MASKS must have shape"),
        ({"masks": 1}, r"MASKS must be Tensor or ndarray or list or tuple or Masks but got int"),
        ({"masks": [_RLE, _RLE]}, r"MASKS must have one mask for each of the 1 labels but has 2"),
        ({"masks": [{"size": [4, 6]}]}, r"MASKS\[0\] must be a dict with .* but got a dict with 'size'"),
        ({"masks": [{**_RLE, "size": [4]}]}, r"MASKS\[0\]\['size'\] must be \[height, width\], two integers"),
        ({"masks": [{**_RLE, "size": [4, -6]}]}, r"MASKS\[0\]\['size'\] must be at least 0 x 0"),
        ({"masks": [{**_RLE, "counts": [3, -1]}]}, r"MASKS\[0\]\['counts'\] must be runs from 0"),
        ({"masks": [{**_RLE, "counts": [3]}]}, r"\['counts'\] must add up to 4 x 6 pixels, 24, but add up to 3"),
        ({"masks": [{**_RLE, "counts": "é9"}]}, r"\['counts'\] must hold characters .* but has b'\\xc3' at position 0"),
        ({"masks": [{**_RLE, "counts": "~"}]}, r"MASKS\[0\]\['counts'\] must hold characters"),
        ({"masks": [{**_RLE, "counts": 5}]}, r"\['counts'\] must be str, bytes or a list of integers but got 5"),
        ({"masks": [{"size": [1 << 20, 1 << 20], "counts": "0"}]}, r"MASKS\[0\]\['size'\] must .* at most 2147483647"),
        ({"masks": [torch.ones(4, 6).bool()]}, r"MASKS\[0\] must be a dict .* or a list of polygons but got Tensor"),
        ({"masks": [_SQUARE]}, r"SIZE must be \[height, width\] of the image for MASKS\[0\], a polygon, but is None"),
        ({"masks": [_SQUARE], "size": [4]}, r"SIZE must be \[height, width\], or one of each .* but got \[4\]"),
        ({"masks": [_SQUARE], "size": [4, -6]}, r"SIZE: sizes\[0\] must be at least 0 x 0"),
        ({"masks": [_SQUARE], "size": [5, 6]}, r"TARGET_MASKS must have the size of MASKS, \[5, 6\]"),
        ({"masks": [[[0, 0, 4]]], "size": [4, 6]}, r"MASKS: ring 0 of mask 0 must have an even number"),
        ({"masks": [[[0, 0, 4, 0, 4, float("nan")]]], "size": [4, 6]}, r"MASKS: ring 0 of mask 0 must have coord"),
        ({"masks": [[3]], "size": [4, 6]}, r"MASKS\[0\] must hold rings"),
        ({"masks": [[[0, 1] * 3] * 4], "size": [4, 6]}, r"MASKS\[0\] must be a dict .* but is a map of 4 x 6 pixels"),
        ({"masks": Masks.of([_RLE, _RLE])}, r"MASKS must have one mask for each of the 1 labels but has 2"),
        ({"masks": Masks.of(np.ones((1, 6, 4), bool))}, r"TARGET_MASKS must have the size of MASKS, \[6, 4\]"),
        ({"masks": torch.ones(1, 4, 6, device="meta").bool()}, r"MASKS must be dense and on cpu"),
    ],
)  # fmt: skip
def test_bad_masks(change: dict[str, Any], message: str) -> None:
    metric = MeanAveragePrecision(iou_type="segm")
    places = {
        "TARGET_MASKS": r"target\[1\]\['masks'\]",
        "SIZE": r"preds\[1\]\['size'\]",
        "MASKS": r"preds\[1\]\['masks'\]",
    }
    for word, place in places.items():
        message = message.replace(word, place)
    with pytest.raises(InputError, match=message):
        metric.update([_ONE, {**_ONE, **change}], [_ONE, _ONE])
    assert not metric.detections
    missing = {k: v for k, v in _ONE.items() if k != "masks"}
    with pytest.raises(InputError, match=r"target\[0\] must have key 'masks' but has \['labels', 'scores'\]"):
        metric.update([_ONE], [missing])


def test_padded_dicts_have_no_masks() -> None:
    metric = MeanAveragePrecision(iou_type="segm")
    for both in (metric, MeanAveragePrecision(iou_type=BOTH)):
        padded = {**_ONE, "boxes": torch.zeros(1, 1, 4), "counts": torch.ones(1, dtype=torch.int64)}
        for key in ("labels", "scores"):
            padded[key] = _ONE[key][None]
        with pytest.raises(InputError, match=r"preds must be a sequence of dicts, .* got dict: masks .* come as lists"):
            both.update(padded, padded)


def boundary(mask: Any) -> Any:
    """The pixels of a mask that erosion by 3 x 3 pixels takes, as often as 2 % of the diagonal says, at least once."""
    height, width = mask.shape
    inner = np.pad(mask, 1)
    for _ in range(max(1, round(0.02 * float(np.hypot(height, width))))):
        padded = np.pad(inner, 1)
        inner = np.min([padded[y : y + height + 2, x : x + width + 2] for y in range(3) for x in range(3)], 0)
    return mask & ~inner[1:-1, 1:-1]


def test_boundaries() -> None:
    """Similarities by the definition; matching of similarities is that of masks."""
    batch = scene(11, images=3)
    choices: dict[str, Any] = dict(iou_type=("segm", "boundary"), extended_summary=True, average="micro")
    got = evaluate(batch, **choices)
    assert 0 < float(got["boundary_map"]) < float(got["segm_map"])
    assert_same(
        evaluate(coded(batch, "str"), iou_type=("segm", "boundary"), extended_summary=True, average="micro"), got
    )
    for pred, true in zip(*batch):
        order = torch.sort(pred["scores"], descending=True, stable=True).indices
        masks, gts = pred["masks"][order].numpy(), true["masks"].numpy()
        crowd = true["iscrowd"].numpy() != 0
        tables = []
        for a, b in ((masks, gts), ([boundary(m) for m in masks], [boundary(m) for m in gts])):
            shared = np.array([[(x & y).sum() for y in b] for x in a], float).reshape(len(a), len(b))
            own, other = (np.array([m.sum() for m in side], float) for side in (a, b))
            union = np.where(crowd, own[:, None], own[:, None] + other - shared)
            tables.append(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))
        expected = np.where(crowd, tables[0], np.minimum(*tables))
        mine = np.asarray(got["boundary_ious"][true["image_id"], 0])
        assert np.array_equal(mine.reshape(expected.shape), expected.astype(np.float32))


def test_dense_boundaries_match_as_run_lengths_do() -> None:
    """Which of the two serves depends on the device."""
    preds, target = scene(12)
    batch, shapes = BoundaryRows().read(preds, target)
    rule = MatchRule.make([0.3], [[0, 1e10]], [100])
    found = [kind(batch, shapes, rule)[0] for kind in (BoundaryRows().pairs, BoundaryRows().dense_pairs)]
    (runs, dense), lists = ([assign(stored, rule) for stored in found], [stored.pairs for stored in found])
    assert torch.equal(runs.detections, dense.detections) and torch.equal(runs.ground_truths, dense.ground_truths)
    assert lists[0] is not None and lists[1] is not None
    assert torch.equal(lists[0].counts, lists[1].counts) and lists[0].counts.sum() > 3


def test_results_of_several_types_have_counts_and_thresholds_once() -> None:
    item = {**_ONE, "boxes": torch.tensor([[0.0, 0, 4, 4]])}
    metric = MeanAveragePrecision("xyxy", BOTH)
    metric.update([item], [{**item, "boxes": -item["boxes"]}])
    found = metric.result()
    assert {n for n in found.values if "thresholds" in n} == {"iou_thresholds", "recall_thresholds"}
    assert found.values["bbox_map"] == 0 < 0.99 < found.values["segm_map"]
    shown = str(found).splitlines()
    assert shown[-2] == "images 1, ground_truths 1, detections 1, ground_truths_of_negative_size 1"
    boxes = MeanAveragePrecision("xyxy")
    boxes.update([item], [{**item, "boxes": -item["boxes"]}])
    assert found.counts == boxes.result().counts
