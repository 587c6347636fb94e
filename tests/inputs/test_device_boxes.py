"""Boxes read by C++ and by Python, without a device: both take the same batches, and leave the same ones."""

from __future__ import annotations

import ctypes
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.overrides import TorchFunctionMode

from testing.scenes import random_scene
from valor_gpu import native, native_objects
from valor_gpu.inputs import device_boxes as module
from valor_gpu.inputs import tensor_api
from valor_gpu.inputs.device_boxes import device_boxes
from valor_gpu.ops.assign.cuda import PlainWords
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

Batch = tuple[list[dict[str, Any]], list[dict[str, Any]]]
needs_reader = pytest.mark.skipif(
    tensor_api.tensor_function() is None or not native.available("valor_cpu"), reason="torch exports no function"
)


def batch_of(images: int, seed: int = 0) -> Batch:
    """Images with crowds, areas and ids, some without detections or ground truths."""
    scene = random_scene(np.random.default_rng([seed, images]), images=images, dtype=torch.float32)
    preds = [dict(boxes=b, scores=s, labels=k) for b, s, k in zip(scene.boxes, scene.scores, scene.labels)]
    columns = zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
    target = [dict(boxes=b, labels=k, iscrowd=c, area=a) for b, k, c, a in columns]
    for number, item in enumerate(target):
        item["image_id"] = torch.tensor([9 - number])
    return preds, target


def padded_of(images: int, seed: int = 0) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The same images in padded tensors."""
    sides = []
    for side in batch_of(images, seed):
        whole = {key: pad_sequence([item[key] for item in side], True) for key in side[0] if key != "image_id"}
        sides.append({**whole, "counts": torch.tensor([len(item["labels"]) for item in side])})
    return sides[0], {**sides[1], "image_id": torch.arange(images)}


def both(preds: Any, target: Any, monkeypatch: pytest.MonkeyPatch) -> list[PlainWords | None]:
    """What C++ and Python make of a batch."""
    found = [device_boxes(preds, target, -1)]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_reader", lambda kind, device: None)
        found.append(device_boxes(preds, target, -1))
    return found


def columns_of(preds: list[dict[str, Any]], target: list[dict[str, Any]]) -> list[list[int]]:
    """The fields of Segments by a plain loop, in the order of csrc/core/match_batch.h."""
    rows, first, gt_first = [], 0, 0
    for pred, true in zip(preds, target):
        places: list[int] = [pred[key].data_ptr() for key in ("boxes", "scores", "labels")] + [0] * 3
        places += [true[key].data_ptr() for key in ("boxes", "labels")]
        places += [true[key].data_ptr() if key in true else 0 for key in ("iscrowd", "area")] + [0] * 2
        key, sizes = true.get("image_id"), [len(pred["labels"]), len(true["labels"])]
        known = [0, key.data_ptr()] if isinstance(key, Tensor) else [key or 0, 0]
        rows.append([*places, *known, int(key is not None), *sizes, 0, 0, first, gt_first])
        first, gt_first = first + sizes[0], gt_first + sizes[1]
    return [list(column) for column in zip(*rows)]


@needs_reader
@pytest.mark.parametrize("images", [1, 2, 7, 40])
@pytest.mark.parametrize("extras", [(), ("iscrowd",), ("area",), ("iscrowd", "area")])
@pytest.mark.parametrize("ids", ["none", "numbers", "tensors"])
def test_words_are_those_of_a_plain_loop(
    images: int, extras: tuple[str, ...], ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    preds, target = batch_of(images)
    for number, item in enumerate(target):
        for key in {"iscrowd", "area"} - set(extras):
            del item[key]
        if ids != "tensors":
            item["image_id"] = None if ids == "none" else 2**62 - number
    found, other = both(preds, target, monkeypatch)
    assert found is not None and found == other
    expected = columns_of(preds, target)
    assert array("q", found.words)[len(found) - 1 :].tolist() == [word for column in expected for word in column]
    assert found[1:4] == (images, sum(expected[15]), sum(expected[16])) and found[4:6] == (-1, -1)
    assert found.most == max(expected[15])
    assert (found.keep_flags >= 0, found.keep_areas >= 0) == ("iscrowd" in extras, "area" in extras)


@needs_reader
@pytest.mark.parametrize("seed", range(6))
def test_every_dtype_has_its_code(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    floats, integers = list(FLOAT_TYPES), list(INT_TYPES)
    chosen = {key: floats[rng.integers(4)] for key in ("boxes", "scores", "gt_boxes", "area")}
    chosen |= {key: integers[rng.integers(6)] for key in ("labels", "gt_labels", "iscrowd")}
    preds, target = batch_of(5, seed)
    preds = [{key: value.to(chosen[key]) for key, value in item.items()} for item in preds]
    for item in target:
        item |= {key: item[key].to(chosen.get(f"gt_{key}", chosen.get(key))) for key in item.keys() - {"image_id"}}
    found, other = both(preds, target, monkeypatch)
    assert found is not None and found == other
    order = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "iscrowd", "area")
    assert found[7:14] == tuple({**FLOAT_TYPES, **INT_TYPES}[chosen[key]] for key in order)
    ends = [found.keep_gt_boxes, found.keep_flags, found.keep_areas, found.keep_bytes]
    used = [4 * found.detections * chosen["boxes"].itemsize]
    used += [found.ground_truths * chosen[key].itemsize * (4 if key == "gt_boxes" else 1)
             for key in ("gt_boxes", "iscrowd", "area")]  # fmt: skip
    begin = 0
    for size, end in zip(used, ends):
        begin += -(-size // 16) * 16
        assert begin == end


@needs_reader
@pytest.mark.parametrize("dropped", [(), ("counts",), ("iscrowd", "area"), ("image_id",)])
def test_padded_tensors_are_read_alike(dropped: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = padded_of(6)
    for key in dropped:
        preds.pop(key, None)
        target.pop(key, None)
    found, other = both(preds, target, monkeypatch)
    assert found is not None and found == other
    room, gt_room = preds["labels"].shape[1], target["labels"].shape[1]
    assert found[1:7] == (6, 6 * room, 6 * gt_room, room, gt_room, room if "counts" in dropped else 0)
    words = dict(zip(native.fields("valor_cpu", "Batch"), array("q", found.words)[len(found) - 1 :]))
    assert words["gt_boxes"] == target["boxes"].data_ptr() and words["stride_gt_boxes"] == 16
    assert words["images"] == 6 and words["stride_gt_flags"] == (0 if "iscrowd" in dropped else 8)
    assert words["image_ids"] == (target["image_id"].data_ptr() if "image_id" in target else 0)


def test_the_head_has_the_fields_that_kernels_read() -> None:
    assert PlainWords._fields[1:] == tuple(native.fields("valor_cpu", "PlainBoxes"))


class Boxes(Tensor):
    """Tensors of a class of their own."""


def set_all(key: str, value: Any) -> Callable[[Any, Any], object]:
    """Replaces a key of every image of the target."""
    return lambda preds, target: [item.update({key: value}) for item in target]


REFUSED: dict[str, Callable[[Any, Any], object]] = {
    "strided": lambda p, t: p[1].update(boxes=torch.cat((p[1]["boxes"],) * 2, 1)[:, ::2]),
    "transposed": lambda p, t: p[1].update(boxes=p[1]["boxes"].T.contiguous()),
    "two columns": lambda p, t: t[1].update(boxes=t[1]["boxes"].reshape(-1, 2)),
    "flat": lambda p, t: p[1].update(boxes=p[1]["boxes"].reshape(-1)),
    "two float dtypes": lambda p, t: p[1].update(boxes=p[1]["boxes"].double()),
    "integer boxes": lambda p, t: [item.update(boxes=item["boxes"].long()) for item in p],
    "complex scores": lambda p, t: [item.update(scores=item["scores"].cfloat()) for item in p],
    "float labels": lambda p, t: [item.update(labels=item["labels"].float()) for item in t],
    "uint16 labels": lambda p, t: [item.update(labels=item["labels"].to(torch.uint16)) for item in t],
    "float8 scores": lambda p, t: [item.update(scores=item["scores"].to(torch.float8_e5m2)) for item in p],
    "meta": lambda p, t: p[1].update(scores=p[1]["scores"].to("meta")),
    "sparse": lambda p, t: p[1].update(boxes=p[1]["boxes"].to_sparse()),
    "negated": lambda p, t: p[1].update(boxes=torch._neg_view(-p[1]["boxes"])),
    "imaginary": lambda p, t: p[1].update(scores=torch.ones(len(p[1]["labels"]), dtype=torch.cfloat).conj().imag),
    "no memory": lambda p, t: p[1].update(scores=torch._efficientzerotensor((len(p[1]["labels"]),))),
    "subclass": lambda p, t: p[1].update(boxes=p[1]["boxes"].as_subclass(Boxes)),
    "parameter": lambda p, t: p[1].update(boxes=torch.nn.Parameter(p[1]["boxes"])),
    "list": lambda p, t: p[1].update(scores=p[1]["scores"].tolist()),
    "array": lambda p, t: p[1].update(scores=p[1]["scores"].numpy()),
    "short scores": lambda p, t: p[1].update(scores=p[1]["scores"][:-1]),
    "short labels": lambda p, t: t[1].update(labels=t[1]["labels"][:-1]),
    "short flags": lambda p, t: t[1].update(iscrowd=t[1]["iscrowd"][:-1]),
    "short areas": lambda p, t: t[1].update(area=t[1]["area"][:-1]),
    "no scores": lambda p, t: p[1].pop("scores"),
    "no boxes": lambda p, t: t[1].pop("boxes"),
    "no flags in one": lambda p, t: t[1].pop("iscrowd"),
    "no areas in the first": lambda p, t: t[0].pop("area"),
    "flags that are None": set_all("iscrowd", None),
    "an id in one": lambda p, t: t[1].pop("image_id"),
    "two kinds of ids": lambda p, t: t[1].update(image_id=3),
    "ids that are bool": set_all("image_id", True),
    "ids that are texts": set_all("image_id", "seven"),
    "ids beyond int64": set_all("image_id", 2**63),
    "ids of two": set_all("image_id", torch.tensor([1, 2])),
    "ids of int32": set_all("image_id", torch.tensor([1], dtype=torch.int32)),
    "another number": lambda p, t: p.append(p[0]),
    "no dict": lambda p, t: p.__setitem__(1, 5),
    "empty": lambda p, t: (p.clear(), t.clear()),
    "sizes below the labels": lambda p, t: p[1].update(labels=torch.cat((p[1]["labels"],) * 2)),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_is_unusual_is_left_to_the_general_way(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = batch_of(4, seed=2)
    assert min(len(preds[1]["labels"]), len(target[1]["labels"])) > 4
    assert device_boxes(preds, target, -1) is not None
    REFUSED[change](preds, target)
    assert both(preds, target, monkeypatch) == [None, None]


PADDED: dict[str, Callable[[Any, Any], object]] = {
    "flat boxes": lambda p, t: p.update(boxes=p["boxes"].flatten(1)),
    "strided": lambda p, t: t.update(boxes=torch.cat((t["boxes"],) * 2, 2)[..., ::2]),
    "another room": lambda p, t: p.update(scores=p["scores"][:, 1:].contiguous()),
    "other images": lambda p, t: t.update({key: value[1:] for key, value in t.items()}),
    "no images": lambda p, t: [side.update({key: value[:0] for key, value in side.items()}) for side in (p, t)],
    "labels of one dimension": lambda p, t: p.update(labels=p["labels"][:, 0].contiguous()),
    "int32 counts": lambda p, t: p.update(counts=p["counts"].int()),
    "short counts": lambda p, t: t.update(counts=t["counts"][1:]),
    "counts that are None": lambda p, t: p.update(counts=None),
    "a number as id": lambda p, t: t.update(image_id=7),
    "float labels": lambda p, t: t.update(labels=t["labels"].float()),
    "no scores": lambda p, t: p.pop("scores"),
    "negated": lambda p, t: p.update(boxes=torch._neg_view(-p["boxes"])),
    "subclass": lambda p, t: p.update(boxes=p["boxes"].as_subclass(Boxes)),
    "areas that are None": lambda p, t: t.update(area=None),
}


@pytest.mark.parametrize("change", PADDED)
def test_unusual_padded_tensors_are_left_to_the_general_way(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = padded_of(4)
    assert device_boxes(preds, target, -1) is not None
    PADDED[change](preds, target)
    assert both(preds, target, monkeypatch) == [None, None]


def test_tensors_of_another_device_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_boxes(*batch_of(2), 0) is None and device_boxes(*padded_of(2), 0) is None


def test_transforms_of_functions_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their wrappers are plain tensors that have no memory."""
    seen = []

    def look(scores: Tensor) -> Tensor:
        preds, target = batch_of(1, seed=2)
        preds[0]["scores"] = scores
        seen.extend(both(preds, target, monkeypatch))
        return scores.sum()

    scores = batch_of(1, seed=2)[0][0]["scores"]
    torch.func.grad(look)(scores)
    torch.vmap(look)(scores[None])
    torch.func.functionalize(look)(scores)
    assert seen == [None] * 6


@needs_reader
def test_gradients_empty_tensors_and_rows_of_one_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = batch_of(4, seed=2)
    preds[1]["boxes"].requires_grad_()
    for item in (preds[2], target[2]):
        item |= {each: value[:0] for each, value in item.items() if each != "image_id"}
        item["boxes"] = torch.tensor([])
    preds[3] = {key: value[::2][:1] for key, value in preds[3].items()}  # strides of a single row say nothing
    assert len(preds[3]["labels"]) == 1
    found, other = both(preds, target, monkeypatch)
    assert found is not None and found == other


class Stops(TorchFunctionMode):
    """Raises an error at the third question for a sign, as Ctrl-C may in any mode of torch."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.asked = error, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.asked += func is Tensor.is_neg
        if self.asked == 3:
            raise self.error
        return func(*args, **(kwargs or {}))


class Key:
    """Raises an error where it is compared with a key of images."""

    def __init__(self, key: str, error: BaseException) -> None:
        self.key, self.error = key, error

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("reader", ["C++", "Python"])
def test_interrupts_reach_the_caller(reader: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    if reader == "Python":
        monkeypatch.setattr(module, "_reader", lambda kind, device: None)
    with pytest.raises(error, match=r"^now$"), Stops(error("now")):
        device_boxes(*batch_of(2), -1)
    for key in ("boxes", "iscrowd", "image_id"):
        preds, target = batch_of(2)
        target[0] = {Key(key, error("now")): 1, **{name: target[0][name] for name in target[0] if name != key}}
        with pytest.raises(error, match=r"^now$"):
            device_boxes(preds, target, -1)


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_other_errors_are_left_to_the_general_way(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    with Stops(error("now")) as mode:
        assert device_boxes(*batch_of(2), -1) is None and mode.asked == 3


def test_an_iterator_is_not_used_up() -> None:
    given = iter([{}, {}])
    assert device_boxes(given, [], -1) is None and len(list(given)) == 2


def test_other_mappings_are_read_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(3)
    ordered = [[OrderedDict(item) for item in side] for side in batch]
    found, other = both(*ordered, monkeypatch)
    assert found is not None and found == other == device_boxes(*batch, -1)


@pytest.fixture
def fresh() -> Iterator[None]:
    """The function is looked up anew, then and afterwards."""
    tensor_api.tensor_function.cache_clear()
    yield
    tensor_api.tensor_function.cache_clear()


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("prev", ctypes.c_void_p)] + [
        (name, ctypes.c_void_p) for name in ("allocate", "from_object", "to_object", "look", "stream")
    ]


def capsule(table: Table, name: bytes) -> Any:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return make(ctypes.addressof(table), name, None)


@pytest.mark.parametrize(
    ("table", "name", "expected"),
    [
        (Table(1, 3, None, 1, 2, 3, 4, 5), b"dlpack_exchange_api", 4),
        (Table(1, 9, None, 1, 2, 3, 4, 5), b"dlpack_exchange_api", 4),
        (Table(2, 0, None, 1, 2, 3, 4, 5), b"dlpack_exchange_api", None),
        (Table(0, 8, None, 1, 2, 3, 4, 5), b"dlpack_exchange_api", None),
        (Table(1, 3, None, 1, 2, 3, None, 5), b"dlpack_exchange_api", None),
        (Table(1, 3, None, 1, 2, 3, 4, 5), b"another", None),
    ],
)
def test_only_a_known_table_is_used(
    table: Table, name: bytes, expected: int | None, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", capsule(table, name), raising=False)
    assert tensor_api.tensor_function() == expected


@pytest.mark.parametrize("value", [None, 7, "capsule"])
def test_what_is_no_capsule_is_not_read(value: Any, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", value, raising=False)
    assert tensor_api.tensor_function() is None


def test_python_reads_where_c_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(3)
    expected = device_boxes(*batch, -1)
    for place, name, value in ((module, "tensor_function", lambda: None),
                               (native_objects, "function", lambda *_: native_objects.nothing)):  # fmt: skip
        module._reader.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            assert module._reader(Tensor, -1) is None and device_boxes(*batch, -1) == expected
    module._reader.cache_clear()
