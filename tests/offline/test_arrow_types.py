"""Columns of every Arrow type: the values that pyarrow gives, or an error with file, column and type."""

from __future__ import annotations

import datetime
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.fuzz import seeds
from tests.inputs.mutations import mutated
from valor_gpu.offline import OfflineResult, run_offline
from valor_gpu.offline.formats.arrow_rows import _values

ACCURACY = {"acc": {"class": "classification.Accuracy", "num_classes": 3, "average": "micro"}}
MAP = {"map": {"class": "detection.MeanAveragePrecision"}}
SCORES = [[0.75, 0.25, 0.0], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75], [0.25, 0.5, 0.25]]
BOXES: list[list[list[float]]] = [[[0.0, 0, 10, 10], [20, 20, 40, 40]], [[5.0, 5, 9, 9]]]


def run(path: Path, columns: dict[str, Any], metrics: Any, **data: Any) -> OfflineResult:
    table = pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    config = {"metrics": metrics, "data": {"files": str(path), **data}, "output": str(path.parent / "out")}
    result = run_offline(config)
    assert result is not None
    return result


def accuracy(path: Path, **columns: Any) -> Any:
    columns = {"preds": pa.array([0, 1, 2, 1]), "target": pa.array([0, 1, 2, 2]), **columns}
    result = run(path, columns, ACCURACY, task="classification")
    return result.failures[0].error if result.failures else result.results["acc"].values["Accuracy"]


def mean_ap(path: Path, metrics: Any = MAP, **columns: Any) -> Any:
    labels = pa.array([[0, 1], [1]])
    base = {"boxes": pa.array(BOXES), "scores": pa.array([[0.9, 0.8], [0.7]]), "labels": labels, "gt_labels": labels}
    columns = {**base, "gt_boxes": base["boxes"], **columns}
    if "masks" in columns:
        del columns["boxes"], columns["gt_boxes"]
    result = run(path, columns, metrics, task="detection", fields={name: name for name in columns})
    return result.failures[0].error if result.failures else result.results["map"].values["map"]


LISTS = (pa.list_(pa.float64()), pa.large_list(pa.float16()), pa.list_(pa.float32(), 3), pa.list_view(pa.float64()),
         pa.list_(pa.decimal128(9, 3)), pa.list_(pa.dictionary(pa.int8(), pa.float64())))  # fmt: skip


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_of_numbers_of_every_type(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data.{ending}"
    whole = [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(5, 0), pa.decimal256(60, 2),
             pa.decimal128(3, -1) if ending == "arrow" else pa.decimal128(3, 0), pa.string(), pa.large_string(),
             pa.string_view(), pa.dictionary(pa.int32(), pa.int64())]  # fmt: skip
    for kind in whole:
        values: list[Any] = [0, 1, 2, 2]
        if pa.types.is_decimal(kind):
            values = [Decimal(each) for each in values] if kind.scale >= 0 else [Decimal(0)] * 4
        elif pa.types.is_float16(kind):
            values = [np.float16(each) for each in values]
        elif not (pa.types.is_dictionary(kind) or pa.types.is_primitive(kind)):
            values = [str(each) for each in values]
        assert accuracy(path, target=pa.array(values, kind)) == (0.75 if values[1:2] != [Decimal(0)] else 0.25), kind
    for kind in LISTS if ending == "arrow" else LISTS[:-1]:
        exact = [[Decimal(str(x)) if "decimal" in str(kind) else np.float16(x) if "half" in str(kind) else x
                  for x in row] for row in SCORES]  # fmt: skip
        assert accuracy(path, preds=pa.array(exact, kind)) == 0.75, kind
    storage = pa.array(SCORES, pa.list_(pa.float64(), 3))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), [3]), storage)  # blocks of Ray
    assert accuracy(path, preds=tensors) == 0.75


TIMES = [datetime.datetime(2026, 1, day) for day in (1, 2, 3, 4)]
UNREAD = {
    "timestamp[us]": pa.array(TIMES, pa.timestamp("us")),
    "date32[day]": pa.array([time.date() for time in TIMES]),
    "duration[s]": pa.array([1, 2, 3, 4], pa.duration("s")),
    "time64[us]": pa.array([time.time() for time in TIMES]),
    "list<element: date32[day]>": pa.array([[time.date()] for time in TIMES]),
    "map<string, int64 ('target')>": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_types_that_are_no_values_are_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "data.parquet"
    error = f"{path}, column 'target' must hold numbers, texts or lists of them but is of Arrow type {kind}: cast it"
    assert accuracy(path, target=UNREAD[kind]).startswith(error)


ROW = "row {} (counted from 0), column 'target' must hold a number but got {}"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (pa.nulls(4), ROW.format(0, None)),
        (pa.array([0, 1, 2, None]), ROW.format(3, None)),
        (pa.array([{"a": 1}] * 4), ROW.format(0, "{'a': 1}")),
        (pa.array([b"1"] * 4), ROW.format(0, "b'1'")),
        (pa.array([0, 1, 2, 2**63 + 1], pa.uint64()), "row 3 (counted from 0): numbers must be below 2^63"),
        (pa.array([0, 1, 2, Decimal("1.5")]), "row 3 (counted from 0): target[0] must be"),
        (pa.array([[0], [1], [2], [2]]), "row 0 (counted from 0): preds must be scores"),
    ],
)
def test_values_that_are_no_classes_are_named(tmp_path: Path, target: Any, message: str) -> None:
    path = tmp_path / "data.parquet"
    assert accuracy(path, target=target).startswith(f"{path}, {message}")


def test_columns_of_one_name_and_files_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    table = pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([1])], ["preds", "preds", "target"])
    parquet.write_table(table, path)
    config = {
        "metrics": ACCURACY,
        "data": {"files": str(path), "task": "classification"},
        "output": str(tmp_path / "o"),
    }
    result = run_offline(config)
    assert result is not None
    assert "must have one column 'preds' but has preds, preds, target" in result.failures[0].error
    for kind in (pa.int64(), pa.null()):  # a writer without rows may not know types
        empty = run(path, {name: pa.array([], kind) for name in ("preds", "target")}, ACCURACY, task="classification")
        assert (empty.counts["rows"], empty.empty) == (0, (str(path),))


def test_boxes_in_nested_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    kinds = [pa.list_(pa.list_(pa.float32(), 4)), pa.large_list(pa.large_list(pa.float64())), pa.list_(
        pa.list_(pa.int16())), pa.list_(pa.list_(pa.decimal128(9, 2)))]  # fmt: skip
    for kind in kinds:
        exact = [[[Decimal(str(x)) for x in box] for box in row] for row in BOXES]
        assert mean_ap(path, boxes=pa.array(exact if "decimal" in str(kind) else BOXES, kind)) == 1.0, kind
    assert mean_ap(path, image_id=pa.array([Decimal(1), Decimal(2)])) == 1.0
    named = [[dict(zip("abcd", box)) for box in row] for row in BOXES]
    for boxes, message in (
        (pa.array([BOXES[0], None]), "row 1 (counted from 0), 'boxes' must hold a value but is null"),
        (pa.array([BOXES[0], [[1.0, None, 2, 3]]]), "row 1 (counted from 0), 'boxes' must hold numbers"),
        (pa.array(named), "row 0 (counted from 0), 'boxes' must hold numbers"),
        (pa.nulls(2), "row 0 (counted from 0), 'boxes' must hold a value but is null"),
    ):
        assert mean_ap(path, boxes=boxes).startswith(f"{path}, {message}")


def test_masks_in_nested_columns(tmp_path: Path) -> None:
    path, metrics = tmp_path / "data.parquet", {"map": {**MAP["map"], "iou_type": "segm"}}
    maps = np.zeros((3, 12, 8), np.uint8)
    for number, pixels in enumerate(maps):
        pixels[2 : 5 + number, 1:6] = 1
    size = pa.array([[12, 8]] * 2)

    def masks(make: Any) -> Any:
        found = [make(pixels) for pixels in maps]
        return pa.array([found[:2], found[2:]])

    def runs(pixels: Any) -> dict[str, Any]:
        flat = pixels.T.reshape(-1)
        ends = np.flatnonzero(np.diff(flat)) + 1
        return {"size": [12, 8], "counts": np.diff([0, *ends, flat.size]).tolist()}

    def rings(pixels: Any) -> list[list[float]]:
        bottom = 2.0 + pixels[:, 1].sum()
        return [[1.0, 2.0, 6.0, 2.0, 6.0, bottom, 1.0, bottom]]

    for form in (runs, rings):
        assert mean_ap(path, metrics, masks=masks(form), gt_masks=masks(form), size=size) == pytest.approx(1.0), form
    pixel_maps: list[Any] = [
        np.ndarray.tolist,
        lambda pixels: (pixels > 0).tolist(),
        lambda pixels: (pixels * 255.0).tolist(),
    ]
    for make in pixel_maps:
        error = mean_ap(path, metrics, masks=masks(make), gt_masks=masks(runs), size=size)
        assert "row 0 (counted from 0): preds[0]['masks'][0] must be a dict" in error
        assert "but is a map of 12 x 8 pixels" in error


# ---------------------------------------------------------------------------------------------- values of random types

LEAVES = (
    pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.null(), pa.decimal128(9, 2), pa.dictionary(pa.int8(), pa.string()),
)  # fmt: skip


def random_type(draw: random.Random, depth: int = 0) -> Any:
    if depth == 3 or draw.random() < 0.4:
        return draw.choice(LEAVES)
    inner = random_type(draw, depth + 1)
    made = [pa.list_(inner), pa.large_list(inner), pa.list_(inner, 2), pa.list_view(inner), pa.struct([("a", inner)])]
    return draw.choice(made)


def random_value(draw: random.Random, kind: Any, nulls: float) -> Any:
    types = pa.types
    if types.is_null(kind) or draw.random() < nulls:
        return None
    if types.is_struct(kind):
        return {"a": random_value(draw, kind.field(0).type, nulls)}
    if types.is_nested(kind):
        count = 2 if types.is_fixed_size_list(kind) else draw.choice([0, 1, 2, 2, 3])
        return [random_value(draw, kind.value_type, nulls) for _ in range(count)]
    number = draw.randrange(100)
    known: dict[Any, Any] = {
        pa.float16(): np.float16(number), pa.bool_(): number > 50, pa.uint64(): 2**64 - 1 - number,
        pa.decimal128(9, 2): Decimal(number) / 4, pa.binary(): b"%d" % number, pa.float64(): number / 4,
    }  # fmt: skip
    return known.get(kind, number if types.is_integer(kind) else str(number))


def plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def test_values_are_those_of_pyarrow() -> None:
    """Slices too, whose offsets begin elsewhere."""
    for seed in seeds(1500):
        draw = random.Random(seed)
        kind, nulls = random_type(draw), draw.choice([0, 0, 0.3])
        column = pa.array([random_value(draw, kind, nulls) for _ in range(draw.randrange(8))], kind)
        column = column.slice(draw.randrange(3), draw.randrange(8))
        assert repr(plain(_values(column))) == repr(plain(column.to_pylist())), f"seed {seed}: {kind}"


def test_damaged_files_fail_or_give_the_same(tmp_path: Path) -> None:
    """With checksums of pages; without them changed numbers cannot be told."""
    path = tmp_path / "data.parquet"
    table = pa.table({"preds": [i % 3 for i in range(200)], "target": [i * 7 % 3 for i in range(200)]})
    parquet.write_table(table, path, row_group_size=70, write_page_checksum=True)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8  # it has no checksum
    config = {
        "metrics": ACCURACY,
        "data": {"files": str(path), "task": "classification"},
        "output": str(tmp_path / "o"),
    }

    def found() -> str:
        result = run_offline(config)
        assert result is not None
        assert not result.failures or str(path) in result.failures[0].error
        return "failed" if result.failures else json.dumps(result.to_dict()["results"])

    outcomes = {found()}
    for seed in seeds(20):
        path.write_bytes(mutated(whole[:-footer], seed) + whole[-footer:])
        outcomes.add(found())
    assert len(outcomes) == 2
    assert "failed" in outcomes
