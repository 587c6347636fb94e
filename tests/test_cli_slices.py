"""``--by``, ``--images-table`` and ``--by-bins`` of the commands that read images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.panoptic_files import GROUND_TRUTH, PREDICTIONS
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.inputs.panoptic_files import read_panoptic_json

DATA = Path(__file__).parents[1] / "examples/data"
TRUTH, FOUND = DATA / "instances_val2014_100.json", DATA / "instances_val2014_fakebbox100_results.json"
DETECT = ["detect", "--gt", str(TRUTH), "--dt", str(FOUND)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    ids = [image["id"] for image in json.loads(TRUTH.read_text())["images"]]
    path = tmp_path / "images.csv"
    lines = [f"{number},{'rain' if place % 3 else 'sun'},{place % 24}" for place, number in enumerate(ids)]
    path.write_text("image_id,weather,hour\n" + "\n".join(lines) + "\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *options: Any) -> tuple[int, str, str]:
    status = main(list(map(str, options)))
    out, err = capsys.readouterr()
    return status, out, err


def test_detect_prints_slices_and_writes_them(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    asked = ("--by", "weather,hour,weather+hour", "--images-table", table, "--by-bins", "hour=6,12", "--json", path)
    status, out, _ = run(capsys, *DETECT, *asked)
    assert status == OK
    lines = out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("slice "))
    assert lines[start].split() == ["slice", "images", "ground", "truths", "map", "map_50", "map_75", "mar_100"]
    assert [line.split("  ")[0] for line in lines[start + 1 : start + 6]] == [
        "weather: rain", "weather: sun", "hour: below 6", "hour: 6 to below 12", "hour: 12 or above"
    ]  # fmt: skip
    assert "weather, hour: sun, 12 or above" in out and "8 more numbers are in --json" in out
    found = json.loads(path.read_text())["slices"]
    assert [(row["column"], row["value"], row["images"]) for row in found[:2]] == [
        ("weather", "rain", 66), ("weather", "sun", 34)
    ]  # fmt: skip
    assert len(found) == 2 + 3 + 6 and all(0 < row["map_50"] <= 1 for row in found)


def test_detect_slices_with_intervals_of_clusters(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters, path = tmp_path / "clusters.csv", tmp_path / "out.json"
    ids = [line.split(",")[0] for line in table.read_text().split()[1:]]
    clusters.write_text("image,cluster\n" + "".join(f"{number},{place // 4}\n" for place, number in enumerate(ids)))
    asked = ("--by", "weather", "--images-table", table, "--intervals", 20, "--cluster-file", clusters, "--json", path)
    status, out, _ = run(capsys, *DETECT, *asked)
    rows = json.loads(path.read_text())["slices"]
    assert status == OK and all(row["map_low"] < row["map_high"] for row in rows)
    assert out.count(" to ") > 2


def test_detect_slices_by_what_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *DETECT, "--by", "crowding,image_size", "--by-bins", "crowding=5")
    assert status == OK and "crowding: below 5" in out and "image_size: 512 to below 1024" in out
    status, out, _ = run(capsys, *DETECT, "--by", "size")
    assert status == OK and "size: 1024 to below 9216" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--images-table", "{t}"], "--images-table needs --by COLUMN but that is missing"),
        (["--by-bins", "hour=6"], "--by-bins needs --by COLUMN but that is missing"),
        (["--by", "weather"], "--by weather needs --images-table FILE but that is missing"),
        (["--by", "wether", "--images-table", "{t}"], "--by must be among 'weather', 'hour', which table has, but got"),
        (["--by", "hour", "--images-table", "{t}", "--by-bins", "x=6"], "--by-bins must be of the columns 'hour' but"),
        (["--by", "hour", "--images-table", "{t}", "--by-bins", "hour=6", "--by-bins", "hour=7"], "hour twice"),
        (["--by", "hour", "--images-table", "{t}", "--by-bins", "hour=7,6"], "--by-bins['hour'] must be one or more"),
        (["--by", "hour", "--images-table", "{g}"], "must end in one of"),
        (["--by", "hour", "--images-table", "none.csv"], "--images-table must be a file but none.csv does not exist"),
    ],
)
def test_options_that_do_not_fit_are_errors(
    table: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [option.format(t=table, g=TRUTH) for option in options]
    status, out, err = run(capsys, *DETECT, *given)
    assert status == BAD_INPUT and not out and said in err and err.count("\n") == 1


@pytest.mark.parametrize("given", ["hour", "hour=", "hour=a", "=6"])
def test_bins_are_a_column_and_edges(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*DETECT, "--by", "hour", "--by-bins", given])
    assert "must be COLUMN=EDGE,EDGE,..." in capsys.readouterr().err


@pytest.mark.parametrize(("column", "suffix"), [("file_name", ""), ("file_name", ".npy"), ("image", ".png")])
def test_segment_slices_by_the_names_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, suffix: str
) -> None:
    generator = np.random.default_rng(3)
    for side in ("gt", "pred"):
        (tmp_path / side).mkdir()
    lines = [f"{column},city"]
    for number in range(6):
        truth = generator.integers(0, 2, (6, 8)).astype(np.uint8)
        np.save(tmp_path / f"gt/{number}.npy", truth)
        np.save(tmp_path / f"pred/{number}.npy", truth if number % 2 else 1 - truth)
        lines.append(f"{number}{suffix},{'Ulm' if number % 2 else 'Bonn'}")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    folders = ["segment", "--gt", tmp_path / "gt", "--pred", tmp_path / "pred", "--num-classes", 2]
    asked = ("--by", "city", "--images-table", tmp_path / "table.csv", "--json", tmp_path / "out.json")
    status, out, _ = run(capsys, *folders, *asked)
    rows = json.loads((tmp_path / "out.json").read_text())["slices"]
    assert status == OK and [(row["value"], row["images"], row["miou"]) for row in rows] == [
        ("Bonn", 3, 0),
        ("Ulm", 3, 1),
    ]
    assert "city: Ulm" in out


def panoptic_names(kind: str) -> list[str]:
    whole = json.loads(GROUND_TRUTH.read_text())
    photos = {image["id"]: image["file_name"] for image in whole["images"]}
    ids = list(read_panoptic_json(str(GROUND_TRUTH), True).annotations)
    pngs = {entry["image_id"]: entry["file_name"] for entry in whole["annotations"]}
    names = {"id": {number: str(number) for number in ids}, "png": pngs, "photo": photos}[kind.split()[0]]
    found = [names[number] for number in ids]
    return [name.rsplit(".", 1)[0] for name in found] if kind.endswith("stem") else found


@pytest.mark.parametrize(
    ("column", "kind"),
    [("image_id", "id"), ("file_name", "png"), ("file_name", "photo"), ("image", "photo"), ("file_name", "png stem")],
)
def test_panoptic_slices(tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, kind: str) -> None:
    annotations = panoptic_names(kind)
    lines = [f"{name},{place % 2}" for place, name in enumerate(annotations)]
    (tmp_path / "table.csv").write_text(f"{column},day\n" + "\n".join(lines) + "\n")
    files = ["panoptic", "--gt", GROUND_TRUTH, "--pred", PREDICTIONS]
    asked = ("--by", "day", "--images-table", tmp_path / "table.csv", "--json", tmp_path / "out.json")
    status, out, _ = run(capsys, *files, *asked)
    rows = json.loads((tmp_path / "out.json").read_text())["slices"]
    assert status == OK and "day: 0" in out and sum(row["images"] for row in rows) == len(annotations)
