"""What ``valor-gpu detect`` reads beside plain files, and what it says of files that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.test_cli import DT, FOUND, GT, TRUTH
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.coco import COCO
from valor_gpu.errors import InputError


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_packed_files_pipes_and_standard_input_give_the_same_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["detect", "--gt", str(GT), "--dt", str(DT)]) == OK
    expected = capsys.readouterr().out
    packed, pipe = tmp_path / "gt.json.gz", tmp_path / "pipe"
    packed.write_bytes(gzip.compress(GT.read_bytes()))
    for gt, dt in ((str(packed), "-"), (str(packed), str(pipe)), ("-", str(DT))):
        standard_input(monkeypatch, (DT if dt == "-" else GT).read_bytes())
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(DT.read_bytes()), daemon=True)
        if dt == str(pipe):
            writer.start()
        assert main(["detect", "--gt", gt, "--dt", dt]) == OK
        assert capsys.readouterr().out == expected


def test_bad_input_from_elsewhere_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    standard_input(monkeypatch, b"[{]")
    assert main(["detect", "--gt", str(GT), "--dt", "-"]) == BAD_INPUT
    assert "error: standard input: byte 2: needed a key in double quotes but got ']'" in capsys.readouterr().err
    assert main(["detect", "--gt", "-", "--dt", "-"]) == BAD_INPUT
    assert "--dt must be another file than --gt but both are -" in capsys.readouterr().err
    (tmp_path / "dt.json.gz").write_bytes(gzip.compress(DT.read_bytes())[:-20])
    assert main(["detect", "--gt", str(GT), "--dt", str(tmp_path / "dt.json.gz")]) == BAD_INPUT
    assert "dt.json.gz must be gzip but is damaged: Compressed file ended" in capsys.readouterr().err


@pytest.mark.usefixtures("capsys")
def test_objects_of_what_is_read_once_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b'{"images": [{"id": 1}, {"id": 2}], "categories": [{"id": 3}, {"id": 5}, {"id": 6}]}')
    truth = COCO("-")
    assert truth.getImgIds() == [1, 2] and len(truth.loadRes(FOUND).columns.annotations) == 3
    with pytest.raises(InputError, match="standard input must be a file for its objects to be read"):
        truth.info()


def scaled(objects: list[dict[str, Any]], by: float) -> list[dict[str, Any]]:
    return [{**one, "bbox": [side * by for side in one["bbox"]]} for one in objects]


NEGATIVE = "a negative width or height: COCO boxes are [x, y, width, height], not two corners"
FRACTION = "within 0 and 1 while the other boxes are in pixels: fractions of the image match nothing"


@pytest.mark.parametrize(
    ("truths", "found", "warning", "counts"),
    [
        (TRUTH["annotations"], [{**FOUND[0], "score": float("nan")}, *FOUND],
         "1 of the detections has a NaN score: ranked last", {"detections_with_nan_score": 1}),
        (TRUTH["annotations"], [{**FOUND[0], "bbox": [9, 9, 5, -2]}] * 2, f"2 of the detections have {NEGATIVE}",
         {"detections_of_negative_size": 2}),
        ([{**TRUTH["annotations"][0], "bbox": [9, 9, -5, 2]}], FOUND, f"1 of the ground truths has {NEGATIVE}",
         {"ground_truths_of_negative_size": 1}),
        (TRUTH["annotations"], scaled(FOUND, 1 / 65), f"3 of the detections lie {FRACTION}",
         {"detections_in_fractions": 3}),
        (scaled(TRUTH["annotations"], 1 / 95), FOUND, f"3 of the ground truths lie {FRACTION}",
         {"ground_truths_in_fractions": 3}),
        (scaled(TRUTH["annotations"], 1 / 95), scaled(FOUND, 1 / 65), None, {}),
        (TRUTH["annotations"], [], None, {}),
    ],
)  # fmt: skip
def test_doubtful_values_are_counted_and_warned_of(
    truths: Any, found: Any, warning: str | None, counts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gt").write_text(json.dumps({**TRUTH, "annotations": truths}))
    (tmp_path / "dt").write_text(json.dumps(found))
    assert main(["detect", "--gt", str(tmp_path / "gt"), "--dt", str(tmp_path / "dt"), "--quiet", "--json", "-"]) == OK
    shown = capsys.readouterr()
    assert shown.err == ("" if warning is None else f"valor-gpu detect: warning: {warning}\n")
    names = [
        name for name in json.loads(shown.out)["counts"] if "_nan_" in name or "negative" in name or "fract" in name
    ]
    assert len(names) == 5
    assert {name: n for name in names if (n := json.loads(shown.out)["counts"][name])} == counts
