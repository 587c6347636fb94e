"""``valor-gpu detect`` of files with doubtful ids, without some fields, and with a byte order mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coco.test_doubtful_ids import IDS, lvis_objects, objects_with
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.store import Store

Json = Any
CORRECTED = ("--convention", "corrected")


def detect(folder: Path, objects: tuple[Json, Json], *options: str) -> int:
    for name, value in zip(("gt.json", "dt.json"), objects):
        (folder / name).write_text(json.dumps(value, default=bytes.decode))
    return main(["detect", "--gt", str(folder / "gt.json"), "--dt", str(folder / "dt.json"), "--json", "-", *options])


@pytest.mark.parametrize("protocol", ["coco", "lvis"])
@pytest.mark.parametrize("name", IDS)
def test_ids_are_told_with_the_way_out(
    name: str, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids, zeros, repeats = IDS[name]
    objects = objects_with(ids) if protocol == "coco" else lvis_objects(ids)
    assert detect(tmp_path, objects, "--protocol", protocol) == OK
    shown = capsys.readouterr()
    written = json.loads(shown.out)
    counts = {"ground_truths_of_id_0": zeros, "ground_truths_of_repeated_id": repeats}
    assert {n: written["counts"][n] for n in counts} == counts
    assert written["values"]["map"] < 0.9
    lines = shown.err.splitlines()
    assert len(lines) == sum(count > 0 for count in counts.values())
    for line in lines:
        assert line.startswith("valor-gpu detect: warning: ")
        assert line.endswith("as in pycocotools; --convention corrected avoids this")
    assert detect(tmp_path, objects, "--protocol", protocol, *CORRECTED) == OK
    shown = capsys.readouterr()
    written = json.loads(shown.out)
    assert shown.err == ""
    assert written["values"]["map"] == pytest.approx(1, abs=1e-12)
    assert {n: written["counts"][n] for n in counts} == counts


def test_images_and_categories_listed_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, results = objects_with([1, 2, 3, 4])
    dataset["images"].append(dataset["images"][0])
    dataset["categories"].append({"id": 1, "name": "other"})
    for options in ((), CORRECTED):
        assert detect(tmp_path, (dataset, results), *options) == OK
        shown = capsys.readouterr().err
        assert "warning: 1 image has the id of an earlier one: the last one counts\n" in shown
        assert "warning: 1 category has the id of an earlier one: the last one counts\n" in shown


@pytest.mark.parametrize(
    ("kind", "key", "taken"),
    [
        ("bbox", "iscrowd", "0 is used"),
        ("bbox", "area", "width x height is used"),
        ("segm", "area", "the area of the mask is used"),
        ("keypoints", "num_keypoints", "the number of visible keypoints is used"),
    ],
)
def test_fields_that_are_missing(
    kind: str, key: str, taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, results = objects_with([1, 2, 3, 4], kind)
    for annotation in dataset["annotations"][1:]:
        del annotation[key]
    assert detect(tmp_path, (dataset, results), "--iou-type", kind) == BAD_INPUT
    shown = capsys.readouterr().err
    assert f"gt.json: annotations[1] must have {key}" in shown or f"gt.json: annotations[2] must have {key}" in shown
    assert ": --convention corrected " in shown and 'convention="corrected"' not in shown
    assert detect(tmp_path, (dataset, results), "--iou-type", kind, *CORRECTED) == OK
    shown = capsys.readouterr()
    assert shown.err == f"valor-gpu detect: warning: 3 ground truths have no {key}: {taken}\n"
    written = json.loads(shown.out)
    assert written["counts"][f"ground_truths_without_{key}"] == 3
    assert written["values"]["map"] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_skipped(packed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = objects_with([1, 2, 3, 4], "segm")
    assert detect(tmp_path, objects, "--iou-type", "segm") == OK
    expected = json.loads(capsys.readouterr().out)["values"]
    for name in ("gt.json", "dt.json"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    arguments = ["--gt", str(tmp_path / "gt.json"), "--dt", str(tmp_path / "dt.json"), "--iou-type", "segm"]
    store = ["--store", str(tmp_path / "runs.db")] if packed else []  # which reads objects
    assert main(["detect", *arguments, *store, "--json", "-"]) == OK
    shown = capsys.readouterr()
    assert shown.err == "" and json.loads(shown.out)["values"] == expected
    assert main(["detect", "--gt", arguments[3], "--dt", arguments[1]]) == BAD_INPUT
    assert capsys.readouterr().err.endswith("did you swap --gt and --dt?\n")


def test_what_is_kept_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert detect(tmp_path, objects_with([0, 1, 2, 3]), "--store", str(tmp_path / "runs.db")) == OK
    found = Store(tmp_path / "runs.db").runs()[0]
    assert "1 ground truth has id 0: a detection that matches it counts as a false positive" in json.dumps(
        found.config, default=str
    )
