"""Names of classes, files and images that hold anything: empty, lone surrogates, line ends, quotes, markup."""

from __future__ import annotations

import contextlib
import csv
import io
import json

import pyarrow.parquet
import pytest
import yaml

from valor_gpu.cli import main
from valor_gpu.coco import COCO, COCOeval

NAMES = [
    "",
    "\ud800lone",
    "a\nb",
    "a\u2028b\x85c\x7f",
    '"q"',
    "{common!r} %s",
    "<script>alert(1)</script>",
    "a/b",
    "x" * 3000,
    "cat",
]


def _truth():
    boxes = [(image, place) for image in range(2) for place in range(len(NAMES))]
    return {
        "images": [{"id": image, "width": 99, "height": 99, "file_name": f"\ud801{image}.jpg"} for image in range(2)],
        "categories": [{"id": place + 1, "name": name} for place, name in enumerate(NAMES)],
        "annotations": [
            {"id": at + 1, "image_id": image, "category_id": place + 1, "bbox": [9 * place, 0, 8, 8], "area": 64,
             "iscrowd": 0} for at, (image, place) in enumerate(boxes)
        ],
    }  # fmt: skip


def _detections(truth):
    return [
        {"image_id": each["image_id"], "category_id": each["category_id"], "bbox": each["bbox"], "score": 0.5}
        for each in truth["annotations"]
        if each["category_id"] != len(NAMES) or each["image_id"]  # one cat is missed
    ]


@pytest.fixture(scope="module")
def result():
    truth = _truth()
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = truth
        known.createIndex()
        evaluation = COCOeval(known, known.loadRes(_detections(truth)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.result()


def test_lines_of_any_name(result):
    points = result.operating_points()
    assert yaml.safe_load(points.lines("yaml")) == {name: pytest.approx(0.5, abs=1e-4) for name in NAMES}
    for form in ("ultralytics", "detectron2"):
        compile(points.lines(form).encode(), form, "exec")


def test_tables_of_any_name(result, tmp_path):
    matches = result.matches()
    assert matches.to_pandas()["class"].tolist() == [name.replace("\ud800", "\\ud800") for name in matches["class"]]
    matches.to_csv(tmp_path / "m.csv")
    matches.to_parquet(tmp_path / "m.parquet")
    matches.to_coco(tmp_path / "m.json")
    expected = ["\\ud800lone" if name == NAMES[1] else name for name in matches["class"]]
    with open(tmp_path / "m.csv", encoding="utf-8", newline="") as file:
        assert [row["class"] for row in csv.DictReader(file)] == expected
    assert pyarrow.parquet.read_table(tmp_path / "m.parquet")["class"].to_pylist() == expected
    assert NAMES[1] in {each["name"] for each in json.loads((tmp_path / "m.json").read_text())["categories"]}


def test_the_command_writes_any_name(tmp_path, capsys):
    truth = _truth()
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "dt.json").write_text(json.dumps(_detections(truth)))
    outputs = {"operating-lines": "o.yaml", "images-csv": "i.csv", "matches": "m.csv", "report": "r.html"}
    given = [text for name, file in outputs.items() for text in (f"--{name}", str(tmp_path / file))]
    arguments = ["detect", "--gt", tmp_path / "gt.json", "--dt", tmp_path / "dt.json", "--operating-points", *given]
    assert main([*map(str, arguments), "--errors", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert "<script>alert" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "\\ud8010.jpg" in (tmp_path / "i.csv").read_text(encoding="utf-8")
