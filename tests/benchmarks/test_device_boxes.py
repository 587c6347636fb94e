"""Updates of boxes on CUDA by one call: the same records and errors as the general way, and few calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.gpu_parity import as_lists, as_packed
from testing.scenes import random_scene
from tests.native import sim
from tests.native.pretend import DeviceTensor, here, pretending, there
from valor_gpu.detection import MeanAveragePrecision, geometry
from valor_gpu.detection.kept_inputs import KeptInputs, PackedInputs
from valor_gpu.errors import InputError, NativeError
from valor_gpu.inputs import device_boxes as module
from valor_gpu.ops.assign import cuda as _assign_cuda
from valor_gpu.ops.error_codes import NO_ERROR

FORMS = {"lists": as_lists, "padded": as_packed}
TABLES = ("detections", "ground_truths", "images")


@pytest.fixture(autouse=True)
def every_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No digest holds all the Python that these tests run; device tensors of the simulator count as plain."""
    monkeypatch.setattr(sim, "skips_known", False)
    monkeypatch.setattr(module, "_PLAIN", DeviceTensor)
    monkeypatch.setattr(geometry, "on_host", lambda library: True)
    empty = torch.empty
    with mock.patch.object(_assign_cuda.torch, "empty", lambda *args, **kwargs: there(empty(*args, **kwargs))):
        yield


def batch_of(form: str, images: int, seed: int = 0) -> tuple[Any, Any]:
    return FORMS[form](random_scene(np.random.default_rng([seed, images]), images=images, most=9), seed)


def tables_of(preds: Any, target: Any, error: int = NO_ERROR, **choices: Any) -> tuple[Tensor, ...] | None:
    metric = MeanAveragePrecision(box_format="xywh", **choices)
    before = there(torch.tensor(error))
    with pretending():
        found = geometry.device_tables(preds, target, metric._rule, metric._plain_code, before)
    assert int(here(before)) == error
    return found if found is None else here(found[1][:4])


def general_tables(preds: Any, target: Any, **choices: Any) -> tuple[Tensor, ...]:
    metric = MeanAveragePrecision(box_format="xywh", **choices)
    metric.error = there(metric.error)
    metric.warn_on_many_detections = False
    with pretending():
        metric.update(preds, target)
    return (*here([getattr(metric, name)[0] for name in TABLES]), here(metric.error))


@pytest.mark.parametrize("images", [1, 2, 16, 17, 40])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "choices", [{}, {"average": "micro"}, {"iou_thresholds": [0.3], "max_detection_thresholds": [1, 2, 3]}]
)
def test_the_records_are_those_of_the_general_way(form: str, images: int, choices: dict[str, Any]) -> None:
    batch = there(batch_of(form, images))
    found, expected = tables_of(*batch, **choices), general_tables(*batch, **choices)
    assert found is not None
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def changed(key: str, value: Any, side: int = 0, image: int = 1) -> tuple[Any, Any]:
    """Lists of 4 images, one entry of which is changed by a function, or removed by None."""
    batch = batch_of("lists", 4)
    item = batch[side][image]
    if value is None:
        del item[key]
    else:
        item[key] = value(item.get(key))
    return there(batch)


@pytest.mark.parametrize("ids", ["none", "numbers", "device"])
def test_ids_reach_the_records(ids: str) -> None:
    batch = batch_of("lists", 20)
    for number, item in enumerate(batch[1]):
        item.pop("image_id", None)
        if ids != "none":
            item["image_id"] = 7 * number - 3 if ids == "numbers" else torch.tensor([7 * number - 3])
    found, expected = tables_of(*there(batch)), general_tables(*there(batch))
    assert found is not None and torch.equal(found[2], expected[2])
    assert set(found[2][:, 1].tolist()) == {int(ids != "none")}


@pytest.mark.parametrize(
    ("key", "value", "side"),
    [
        ("boxes", lambda t: t.double(), 0), ("boxes", lambda t: t.long(), 0), ("boxes", lambda t: t[:, :3], 0),
        ("boxes", lambda t: t.T.contiguous(), 0), ("boxes", lambda t: t.reshape(-1, 2), 1),
        ("boxes", lambda t: torch.cat((t, t), 1)[:, ::2], 0), ("scores", lambda t: t[:0], 0), ("scores", None, 0),
        ("labels", lambda t: t.float(), 1), ("labels", lambda t: t.tolist(), 0), ("iscrowd", lambda t: None, 1),
        ("area", lambda t: torch.ones(3, dtype=torch.float32), 1), ("image_id", lambda t: torch.tensor([1, 2]), 1),
        ("image_id", lambda t: 2**70, 1), ("image_id", lambda t: "seven", 1),
        ("boxes", lambda t: torch._neg_view(-t), 0),
    ],
)  # fmt: skip
def test_what_is_unusual_is_left_to_the_general_way(key: str, value: Any, side: int) -> None:
    assert tables_of(*changed(key, value, side)) is None


@pytest.mark.parametrize(("side", "name"), [(0, "preds"), (1, "target")])
@pytest.mark.parametrize("images", [1, 4])
def test_boxes_that_are_no_rows_are_rejected(side: int, name: str, images: int) -> None:
    """As many numbers in another shape would be read as other boxes."""
    batch = batch_of("lists", images)
    item = batch[side][-1]
    size = len(item["labels"])
    assert size not in (0, 4)
    item["boxes"] = item["boxes"].T.contiguous()
    with pytest.raises(
        InputError, match=rf"{name}\[{images - 1}\]\['boxes'\] must have shape \[{size}, 4\].*\[4, {size}\]"
    ):
        general_tables(*there(batch))


def test_images_without_boxes_take_the_short_way() -> None:
    batch = batch_of("lists", 4)
    for side, item in enumerate((batch[0][1], batch[1][2])):
        item["boxes"] = torch.empty(0, 4) if side else torch.empty(0)
        for key in item.keys() - {"boxes", "image_id"}:
            item[key] = item[key][:0]
    batch = there(batch)
    found = tables_of(*batch)
    assert found is not None
    assert all(map(torch.equal, found, general_tables(*batch)))


def test_other_forms_are_left_to_the_general_way() -> None:
    preds, target = there(batch_of("lists", 2))
    tables = [tables_of(*batch) for batch in ((preds, target[:1]), ([], []), (tuple(preds), target), (preds, {}))]
    assert tables == [None] * 4
    with pretending(capturing=True):
        rule = MeanAveragePrecision()._rule
        assert geometry.device_tables(preds, target, rule, 0, there(torch.tensor(NO_ERROR))) is None
    assert module.device_boxes(preds, target, 0) is None  # they lie elsewhere


def test_tables_of_very_many_images_are_left_to_the_general_way() -> None:
    preds, target = there(batch_of("lists", 1))
    assert tables_of(preds * 430, target * 430) is not None
    assert tables_of(preds * 450, target * 450) is None


@pytest.mark.parametrize(("images", "room", "served"), [(1, 300, True), (1, 2000, False), (40, 300, False)])
def test_padding_that_needs_a_workspace_is_left_to_the_general_way(images: int, room: int, served: bool) -> None:
    """Images have shared memory for their room where all of them work at once."""
    target = {"boxes": torch.zeros(images, room, 4), "labels": torch.zeros(images, room, dtype=torch.int64)}
    preds = {
        "boxes": torch.ones(images, 100, 4),
        "scores": torch.ones(images, 100),
        "labels": torch.zeros(images, 100, dtype=torch.int64),
    }
    got = tables_of(*there((preds, target)))
    assert (got is not None) == served
    if got is not None:
        assert all(map(torch.equal, got, general_tables(*there((preds, target)))))


@pytest.mark.parametrize("form", FORMS)
def test_the_smaller_error_is_kept(form: str) -> None:
    preds, target = batch_of(form, 3)
    (preds[1]["scores"] if form == "lists" else preds["scores"][1])[0] = torch.nan
    batch = there((preds, target))
    own = int(general_tables(*batch)[3])
    assert 5 < own < NO_ERROR
    codes = [int(tables_of(*batch, error=before)[3]) for before in (NO_ERROR, 5, own + 1)]  # type: ignore[index]
    assert codes == [own, 5, own]


@pytest.mark.smoke
@pytest.mark.parametrize(("form", "images", "launches"), [("lists", 16, 2), ("lists", 40, 4), ("padded", 40, 2)])
def test_an_update_makes_one_call(form: str, images: int, launches: int) -> None:
    batch = there(batch_of(form, images))
    rule = MeanAveragePrecision(box_format="xywh")._rule
    error = there(torch.tensor(NO_ERROR))
    with pretending() as called:
        sim.launches()
        geometry.device_tables(*batch, rule, 1, error, keep=True)
        launched = sim.launches()
    assert called == ["valor_assign_plain_cuda"] and len(launched) == launches


def kept_of(preds: Any, target: Any) -> KeptInputs:
    """What an update on the device keeps, on the host."""
    metric = MeanAveragePrecision(box_format="xywh")
    for name in ("error", "signature"):
        setattr(metric, name, there(getattr(metric, name)))
    with pretending() as called:
        metric.update(*there((preds, target)))
    assert called == ["valor_assign_plain_cuda"]
    packed: PackedInputs = metric.images[0]._valor_gpu_inputs  # type: ignore[union-attr, assignment]
    return packed._replace(memory=here(packed.memory)).unpacked()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("images", [1, 16, 20])
@pytest.mark.parametrize("form", FORMS)
def test_inputs_are_copied_as_they_were_given(form: str, images: int, seed: int) -> None:
    rng = np.random.default_rng([seed, images])
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    chosen = {key: floats[rng.integers(4)] for key in ("boxes", "gt_boxes", "area")}
    chosen["iscrowd"] = (torch.int8, torch.bool, torch.int32, torch.int64)[seed]
    preds, target = batch_of(form, images, seed)
    for prefix, side in (("", preds), ("gt_", target)):
        for item in side if form == "lists" else [side]:
            for key in item.keys() & {"boxes", "iscrowd", "area"}:
                item[key] = moved(item[key].to(chosen.get(prefix + key, chosen.get(key))), seed)
            for key in {"iscrowd", "area"} & set(("iscrowd", "area")[: seed % 3]):
                item.pop(key, None)
    found = kept_of(preds, target)
    assert found.box_format == 1 and found[5:] == (None, None)
    given = {"boxes": (preds, "boxes"), "gt_boxes": (target, "boxes")}
    given |= {"crowd": (target, "iscrowd"), "areas": (target, "area")}
    for name, (side, key) in given.items():
        items = side if form == "lists" else [side]
        parts = [item[key].reshape((-1, 4) if key == "boxes" else -1) for item in items if key in item]
        got = getattr(found, name)
        assert (got is None) == (not parts)
        assert got is None or (got.dtype == parts[0].dtype and torch.equal(got, torch.cat(parts)))


def moved(tensor: Tensor, elements: int) -> Tensor:
    """The same numbers, so many elements behind the beginning of their memory."""
    memory = torch.zeros(elements + tensor.numel(), dtype=tensor.dtype)
    memory[elements:] = tensor.reshape(-1)
    return memory[elements:].view(tensor.shape)


def test_copies_outlive_what_was_given() -> None:
    preds, target = batch_of("lists", 3)
    expected = torch.cat([item["boxes"] for item in preds]).clone()
    found = kept_of(preds, target)
    for item in preds:
        item["boxes"].zero_()
    assert found.boxes is not None and torch.equal(found.boxes, expected)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_copied_that_is_not_kept(form: str) -> None:
    metric = MeanAveragePrecision(box_format="xywh", keep_inputs=False)
    metric.error = there(metric.error)
    with pretending():
        metric.update(*there(batch_of(form, 3)))
    assert metric._kept_inputs() == [None]


@pytest.mark.parametrize(
    ("form", "counts", "warns"), [("lists", False, True), ("padded", True, False), ("padded", False, True)]
)
def test_many_detections_are_warned_of(form: str, counts: bool, warns: bool) -> None:
    preds, target = batch_of(form, 3)
    if form == "padded" and not counts:
        del preds["counts"]
    metric = MeanAveragePrecision(box_format="xywh", max_detection_thresholds=[1, 2, 3])
    metric.error = there(metric.error)
    with pretending(), pytest.warns(UserWarning, match="more than 3 detections") if warns else nullcontext():
        metric.update(*there((preds, target)))


@pytest.mark.parametrize("form", FORMS)
def test_updates_of_a_metric_take_the_short_way(form: str) -> None:
    metric, plain = (MeanAveragePrecision(box_format="xywh") for _ in range(2))
    for name in ("error", "signature"):
        setattr(metric, name, there(getattr(metric, name)))
    batches = [batch_of(form, images, images) for images in (3, 20)]
    with pretending() as called:
        for batch in batches:
            metric.update(*there(batch))
    assert called == ["valor_assign_plain_cuda"] * 2 and metric.update_count == 2
    for name in TABLES:
        getattr(plain, name).extend(here(getattr(metric, name)))
    plain._update_count = 2
    again = MeanAveragePrecision(box_format="xywh")
    for batch in batches:
        again.update(*batch)
    got, expected = plain.compute(), again.compute()
    assert all(torch.equal(got[name], value) for name, value in expected.items())


def test_a_failed_call_leaves_the_metric_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = MeanAveragePrecision(box_format="xywh")
    metric.error = there(metric.error)

    def fail(*_: Any) -> None:
        raise NativeError("valor_assign_plain_cuda failed with status 2")

    with (
        pretending(),
        mock.patch.object(_assign_cuda, "assign_plain", fail),
        pytest.raises(NativeError, match="status 2"),
    ):
        metric.update(*there(batch_of("lists", 3)))
    assert not metric.images and metric.update_count == 0 and int(here(metric.error)) == NO_ERROR


@pytest.mark.parametrize("choices", [{}, {"average": "micro"}, {"average": "micro", "class_metrics": True}])
def test_padding_has_no_similarities(choices: dict[str, Any]) -> None:
    """Rows of padding stay in the tables of CUDA, where those of the CPU have none."""
    batch = batch_of("padded", 5)
    metric, plain = (
        MeanAveragePrecision(box_format="xywh", extended_summary=True, keep_inputs=False, **choices) for _ in range(2)
    )
    plain.update(*batch)
    metric.error = there(metric.error)
    with pretending():
        metric.update(*there(batch))
    for name in metric._merge:
        held = getattr(metric, name)
        setattr(metric, name, list(map(here, held)) if isinstance(held, list) else here(held))
    assert len(metric.ground_truths[0]) > len(plain.ground_truths[0])
    got, expected = metric.compute(), plain.compute()
    assert got.keys() == expected.keys() and got["ious"].keys() == expected["ious"].keys()
    for cell, iou in expected["ious"].items():
        assert got["ious"][cell] == iou if isinstance(iou, list) else torch.equal(got["ious"][cell], iou)
