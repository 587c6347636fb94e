"""Results in files and tables: what comes back, and what damaged files and missing packages say."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.result import Result, Signature

NAN, INF = float("nan"), float("inf")


def example() -> Result:
    return Result(
        values={
            "map": 0.1 + 0.2,
            "map_small": NAN,
            "images": 2**60 + 1,
            "on": True,
            "worst": -INF,
            "tensor": torch.tensor(0.1, dtype=torch.float64),
            "precision": torch.tensor([[0.1, NAN], [INF, -INF]], dtype=torch.float32),
            "none": np.zeros((0, 3), dtype=np.int64),
            "half": torch.tensor([0.5, 0.1], dtype=torch.bfloat16),
            "per_class": {"cat": NAN, "dog": 0.75, "a/b": np.array([1, 2], dtype=np.int32)},
        },
        signature=Signature({"metric": "mAP", "iou": (0.5, 0.75), "crowd": True, "ids": None, "version": "1.0"}),
        counts={"images": 3, "ignored": 0},
        reasons={"map_small": "no small ground truth", "per_class": "class without ground truth"},
    )


def test_json_is_strict_and_has_reasons() -> None:
    text = example().to_json(indent=2)
    assert "NaN" not in text and "Infinity" not in text
    found = json.loads(text)
    assert found == json.loads(example().to_json()) == example().to_dict()
    assert found["values"]["map_small"] is None and found["reasons"]["per_class/cat"] == "class without ground truth"
    assert "precision" not in json.loads(example().to_json(arrays=False))["values"]


def test_a_saved_result_comes_back_with_the_same_bits(tmp_path: Path) -> None:
    before, path = example(), tmp_path / "result.json"
    before.save(path)
    after = Result.load(path)
    assert after.to_dict() == before.to_dict() and after.signature == before.signature
    assert after.counts == before.counts and after.reasons == before.reasons and str(after) == str(before)
    assert after.values["images"] == 2**60 + 1 and after.values["on"] is True and after.values["worst"] == -INF
    assert after.values["map"] == before.values["map"] and math.isnan(after.values["map_small"])
    precision = before.values["precision"].numpy()
    assert after.values["precision"].dtype == np.float32
    assert after.values["precision"].tobytes() == precision.tobytes()
    assert after.values["none"].shape == (0, 3) and after.values["none"].dtype == np.int64
    assert after.values["half"].dtype == np.float32 and after.values["half"][1] == float(before.values["half"][1])
    assert after.values["per_class"]["a/b"].dtype == np.int32
    after.save(path)
    assert Result.load(path).to_dict() == before.to_dict()
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        example().save(path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["result.json"]


def saved(**changes: Any) -> str:
    whole = {"format": "valor_gpu.result", "format_version": 1, "values": {"a": 1.0, "b": [1, 2]}, "signature": {}}
    more = {"counts": {}, "reasons": {}, "arrays": {"b": {"dtype": "int64", "shape": [2]}}, "infinite": {}}
    return json.dumps({**whole, **more, **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[1]", "another kind of file"),
        ('{"values": {"map": 1}}', "another kind of file"),
        (saved(format_version=2), "format version 2; this version reads 1"),
        (saved(values=[]), "values that is no object"),
        (saved(values={"a": "x", "b": [1, 2]}), "value a that is no number"),
        (saved(values={"a": 1}), "no value b"),
        (saved(values={"a": [1], "b": [1, 2]}), "value a that is no number"),
        (saved(counts={"n": "1"}), "a count that is no whole number"),
        (saved(reasons={"a": 1}), "a reason that is no text"),
        (saved(reasons={"c": "why"}), "reasons must name values but got 'c'"),
        (saved(arrays={"b": {"dtype": "int64", "shape": [3]}}), "cannot reshape"),
        (saved(arrays={"b": {"dtype": "object", "shape": [2]}}), "an array of object"),
        (saved(arrays={"b": {"shape": [2]}}), "no 'dtype'"),
        (saved(infinite={"b": [[7, 1]]}), "cannot convert float infinity|out of bounds"),
        (saved().replace("1.0", "NaN"), "NaN, which is no JSON"),
        ('{"a":' * 100_000, "recursion|Expecting"),
    ],
)
def test_damaged_files_say_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Result.load(path)
    path.write_text(saved())
    assert Result.load(path).values["b"].tolist() == [1, 2]


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        Result.load(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"must be a file that Result.save wrote but .* has 'utf-8' codec"):
        Result.load(tmp_path / "x")


def test_saving_loads_no_torch_and_no_numpy(tmp_path: Path) -> None:
    program = """
import sys
from valor_gpu.result import Result, Signature
Result({"a": 1.0}, Signature({})).save(sys.argv[1])
Result.load(sys.argv[1]).to_json()
print([name for name in ("torch", "numpy", "pandas", "pyarrow") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program, tmp_path / "a"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


ROWS = [
    ("map", None, 0.1 + 0.2, None),
    ("map_small", None, NAN, "no small ground truth"),
    ("images", None, float(2**60), None),
    ("on", None, 1.0, None),
    ("worst", None, -INF, None),
    ("tensor", None, 0.1, None),
    ("per_class", "cat", NAN, "class without ground truth"),
    ("per_class", "dog", 0.75, None),
]


def same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    return repr(found) == repr(expected)  # NaN is not equal to itself, but its text is


def test_pandas_has_a_row_for_each_number() -> None:
    frame = example().to_pandas()
    rows = [tuple(None if isinstance(v, float) and v != v and at != 2 else v for at, v in enumerate(row))
            for row in frame.itertuples(index=False, name=None)]  # fmt: skip
    assert same(rows, ROWS)
    assert str(frame["value"].dtype) == "float64" and list(frame.columns) == ["name", "key", "value", "reason"]
    assert frame.attrs["signature"]["iou"] == [0.5, 0.75] and frame.attrs["counts"] == {"images": 3, "ignored": 0}
    assert str(Result({}, Signature({})).to_pandas()["value"].dtype) == "float64"


def test_arrow_has_the_same_rows_and_its_schema() -> None:
    table = example().to_arrow()
    assert same([tuple(row.values()) for row in table.to_pylist()], ROWS)
    assert json.loads(table.schema.metadata[b"signature"])["metric"] == "mAP"
    assert json.loads(table.schema.metadata[b"counts"]) == {"images": 3, "ignored": 0}
    empty = Result({"a": 1.0}, Signature({})).to_arrow()
    assert [str(kind) for kind in empty.schema.types] == ["string", "string", "double", "string"]


def test_arrays_become_rows_where_asked() -> None:
    rows = [tuple(row.values()) for row in example().to_arrow(arrays=True).to_pylist()]
    assert [row[:2] for row in rows if row[0] == "precision"] == [
        ("precision", f"{i},{j}") for i in (0, 1) for j in (0, 1)
    ]
    assert ("per_class", "a/b/1", 2.0, None) in rows and len(rows) == len(ROWS) + 4 + 2 + 2


@pytest.mark.parametrize(
    ("method", "package", "extra"), [("to_pandas", "pandas", "pandas"), ("to_arrow", "pyarrow", "arrow")]
)
def test_missing_packages_name_the_extra(
    method: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"Result.{method} needs {package}: pip install 'valor_gpu\[{extra}\]'"
    ):
        getattr(example(), method)()
