"""``valor-gpu detect`` about errors, thresholds, tables and the report: text, JSON, files and what is rejected."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.cli import BAD_INPUT, OK, main

DATA = Path(__file__).parents[2] / "examples/data"
BOXES = (DATA / "instances_val2014_100.json", DATA / "instances_val2014_fakebbox100_results.json")
MASKS = (DATA / "instances_val2014_100_masks.json.gz", DATA / "instances_val2014_fakesegm100_results.json.gz")


def detect(capsys: pytest.CaptureFixture[str], *options: object, files: Any = BOXES) -> tuple[int, str, str]:
    status = main(["detect", "--gt", str(files[0]), "--dt", str(files[1]), *map(str, options)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def result_of(files: Any = BOXES, kind: str = "bbox") -> Any:
    import contextlib
    import io

    from valor_gpu.coco import COCO, COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(files[0])
        evaluation = COCOeval(truth, truth.loadRes(str(files[1])), kind)
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.result()


def test_nothing_changes_without_the_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, text, _ = detect(capsys, "--json", tmp_path / "a.json")
    assert status == OK and "classification" not in text
    assert not {"errors", "operating_points"} & set(json.loads((tmp_path / "a.json").read_text()))


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_errors_are_printed_and_in_json(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files, out = {"bbox": BOXES, "segm": MASKS}[kind], tmp_path / "out.json"
    status, text, _ = detect(capsys, "--iou-type", kind, "--errors", "--json", out, files=files)
    expected = result_of(files, kind).errors()
    assert status == OK and str(expected) in text
    document = json.loads(out.read_text())
    assert document["errors"] == json.loads(json.dumps(expected.to_dict()))
    assert document["values"]["map_50"] == document["errors"]["values"]["ap"]


def test_errors_of_the_other_protocol_and_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    status, text, _ = detect(capsys, "--errors", "--errors-protocol", "tidecv", "--analysis-iou", "0.75")
    assert status == OK and str(result_of().errors(0.75, protocol="tidecv")) in text
    assert "AP " in text and "at IoU 0.75" in text


@pytest.mark.parametrize(
    ("purpose", "choices"),
    [
        ("", {"beta": 1.0}),
        ("beta=2", {"beta": 2.0}),
        ("precision=0.9", {"precision": 0.9}),
        ("recall=0.5", {"recall": 0.5}),
        ("cost=1,5", {"cost": (1.0, 5.0)}),
    ],
)
def test_thresholds_of_every_purpose(
    purpose: str, choices: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ["--operating-points", *([purpose] if purpose else [])]
    lines = tmp_path / "lines.yaml"
    status, text, _ = detect(capsys, *given, "--operating-lines", lines, "--json", tmp_path / "o.json")
    points = result_of().operating_points(**choices)
    assert status == OK and f"wrote {lines}" in text and str(points.signature) in text
    row = next(line for line in text.splitlines() if line.startswith("person  ")).split()
    assert row[1] == f"{points.values['score_threshold_per_class']['person']:.3f}"
    whole = next(line for line in text.splitlines() if line.startswith("all together")).split()
    assert whole[2:4] == [f"{points.values[name]:.3f}" for name in ("score_threshold", "precision")]
    document = json.loads((tmp_path / "o.json").read_text())
    assert document["operating_points"] == json.loads(json.dumps(points.to_dict()))
    assert lines.read_text(encoding="utf-8") == points.lines("yaml")


def test_tables_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    images, matches = tmp_path / "images.csv", tmp_path / "matches.csv"
    given = ("--images-csv", images, "--matches", matches, "--analysis-score", "0.3", "--analysis-iou", "0.6")
    status, text, _ = detect(capsys, *given)
    assert status == OK and text.endswith(f"wrote {images}\nwrote {matches}\n")
    result = result_of()
    result.images(0.6, 0.3).to_csv(tmp_path / "expected.csv")
    assert images.read_bytes() == (tmp_path / "expected.csv").read_bytes()
    result.matches(0.6, 0.3).to_csv(tmp_path / "expected.csv")
    assert matches.read_bytes() == (tmp_path / "expected.csv").read_bytes()
    rows = list(csv.DictReader(images.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 100 and sum(int(row["false_negatives"]) for row in rows) > 0


def test_parquet_and_coco_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    status, _, _ = detect(capsys, "--images-csv", tmp_path / "i.parquet", "--matches", tmp_path / "m.json")
    assert status == OK and parquet.read_table(tmp_path / "i.parquet").num_rows == 100
    document = json.loads((tmp_path / "m.json").read_text())
    assert document["images"] and document["categories"] and document["annotations"]


def test_report_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, text, _ = detect(capsys, "--report", page, "--report-count", 3, "--intervals", 20, "--errors")
    assert status == OK and f"wrote {page}" in text
    content = page.read_text(encoding="utf-8")
    assert content.count('class="scene" ') == 3 and "replicates of images" in content
    assert BOXES[1].name in content and "SHA-256" in content
    first = page.read_bytes()
    detect(capsys, "--report", page, "--report-count", 3, "--intervals", 20)
    assert page.read_bytes() == first


def test_report_on_photos(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    record = next(each for each in json.loads(BOXES[0].read_text())["images"] if each["id"] == 196)
    pixels = np.zeros((record["height"], record["width"], 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / record["file_name"])
    given = ("--report", tmp_path / "p.html", "--images", tmp_path)
    status, _, errors = detect(capsys, *given)
    assert status == OK and "warning: not in the report: photo " in errors and " is not there, and " in errors
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("data:image/jpeg") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--errors-protocol", "tidecv"], "--errors-protocol needs --errors or --report but that is missing"),
        (["--operating-lines", "a.yaml"], "--operating-lines needs --operating-points but that is missing"),
        (["--analysis-iou", "0.5"], "--analysis-iou needs --errors or --operating-points or"),
        (["--analysis-score", "0.5", "--errors"], "--analysis-score needs --images-csv or --matches or --report"),
        (["--report-count", "3", "--errors"], "--report-count needs --report but that is missing"),
        (["--report", "a.pdf"], "--report must end in .html or .htm but got a.pdf"),
        (["--images-csv", "a.txt"], "--images-csv must end in .csv or .parquet but got a.txt"),
        (["--matches", "a.xml"], "--matches must end in .csv or .parquet or .json but got a.xml"),
        (["--images-csv", "no/such/folder/a.csv"], "--images-csv must lie in a folder that exists"),
        (["--report", "a.html", "--images", "no_folder"], "--images must be a folder but no_folder does not exist"),
        (["--errors", "--analysis-iou", "2"], "--analysis-iou must be above 0 and at most 1 but got 2"),
        (["--errors", "--analysis-iou", "0.05"], "--analysis-iou must be above 0.1, up to which a detection shows"),
        (["--operating-points", "--analysis-iou", "0"], "--analysis-iou must be above 0 and at most 1 but got 0"),
        (["--operating-points", "beta=0"], "beta must be above 0 but got 0.0"),
        (["--by", ","], "--by must name columns with commas between them but got ','"),
        (["--images", "."], "--overlay must be given with --images but is not"),
    ],
)
def test_what_is_rejected(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text, errors = detect(capsys, *options)
    assert status == BAD_INPUT and text == "" and message in errors


def test_thresholds_have_the_intervals_that_are_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    _, text, _ = detect(capsys, "--operating-points", "--intervals", "40", "--json", path)
    found = json.loads(path.read_text())["operating_points"]["intervals"]["f1"]
    line = next(line for line in text.splitlines() if line.startswith("all together"))
    assert f"({found['low']:.3f} to {found['high']:.3f})" in line


def test_one_file_for_two_options_is_rejected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    status, _, errors = detect(capsys, "--images-csv", path, "--matches", path)
    assert status == BAD_INPUT and "--matches must be another file than --images-csv but both are" in errors
    status, _, errors = detect(capsys, "--json", tmp_path / "a.json", "--matches", tmp_path / "a.json")
    assert status == BAD_INPUT and "--matches must be another file than --json" in errors


@pytest.mark.parametrize("purpose", ["f=1", "beta=x", "cost=1", "precision=0.5,0.6", "recall"])
def test_purposes_that_are_none(purpose: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        detect(capsys, "--operating-points", purpose)
    assert "must be beta=1, precision=0.9, recall=0.8 or cost=1,5 but got" in capsys.readouterr().err


def test_lvis_answers_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    truth = {
        "images": [{"id": 1, "width": 40, "height": 30, "neg_category_ids": [], "not_exhaustive_category_ids": []}],
        "categories": [{"id": 1, "name": "cat", "frequency": "f"}, {"id": 2, "name": "dog", "frequency": "r"}],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": i, "bbox": [2 * i, 2, 9, 9], "area": 81, "segmentation": []}
            for i in (1, 2)
        ],
    }
    found = [{"image_id": 1, "category_id": 1, "bbox": [2, 2, 9, 8], "score": 0.5}]
    files = tmp_path / "gt.json", tmp_path / "dt.json"
    for path, content in zip(files, (truth, found)):
        path.write_text(json.dumps(content))
    given = ("--protocol", "lvis", "--errors", "--operating-points", "--report", tmp_path / "r.html")
    status, text, errors = detect(capsys, *given, files=files)
    assert (status, errors) == (OK, "") and "missed" in text and "all together" in text
    assert "1 correct, 0 wrong, 1 missed" in (tmp_path / "r.html").read_text(encoding="utf-8")


def _table(tmp_path: Path, head: str) -> Path:
    images = json.loads(BOXES[0].read_text())["images"]
    path = tmp_path / "t.csv"
    path.write_text(head + "".join(f"{image['id']},a\n" for image in images))
    return path


@pytest.mark.parametrize("output", ["--images-csv", "--matches", "--json"])
@pytest.mark.parametrize(
    ("option", "head", "more"),
    [
        ("--images-table", "image_id,w\n", ["--by", "w"]),
        ("--cluster-file", "image,cluster\n", ["--intervals", "2"]),
    ],
)
def test_no_output_replaces_a_table_that_is_read(
    output: str, option: str, head: str, more: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = _table(tmp_path, head)
    (tmp_path / "link.csv").symlink_to(table)
    before = table.read_text()
    status, _, problem = detect(capsys, option, table, *more, output, tmp_path / "link.csv")
    assert status == BAD_INPUT and f"{output} must be another file than {option} but both are" in problem
    assert table.read_text() == before


@pytest.mark.parametrize("output", ["--report", "--json", "--overlay"])
def test_no_output_replaces_the_store(output: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.html"
    status, _, problem = detect(capsys, "--store", path, output, path)
    assert status == BAD_INPUT and f"{output} must be another file than --store but both are {path}" in problem
    assert not path.exists()


def test_a_report_is_no_folder_of_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    status, _, problem = detect(capsys, "--overlay", path, "--report", path)
    assert status == BAD_INPUT and f"--report must be another file than --overlay but both are {path}" in problem
