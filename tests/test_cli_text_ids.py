"""valor-gpu detect on files whose ids of images and categories are texts: every output gives them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testing.lvis_scenes import random_lvis
from testing.text_ids import renamed
from tests.coco.comparison import random_objects
from valor_gpu.cli import main
from valor_gpu.store import Store

SIZE = {"width": 300, "height": 300}


def saved(folder: Path, objects: Any) -> list[str]:
    paths = [folder / "gt.json", folder / "dt.json"]
    for path, value in zip(paths, objects):
        path.write_text(json.dumps(value))
    return ["detect", "--gt", str(paths[0]), "--dt", str(paths[1])]


def texts(seed: int) -> Any:
    data, results = renamed(random_objects(seed, images=8), seed)
    for number, image in enumerate(data["images"]):
        image.update(SIZE, file_name=f"{number}.jpg")
    return data, results


def test_the_files_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    data, results = texts(1)
    out, store, pictures = tmp_path / "out.json", tmp_path / "store", tmp_path / "pictures"
    options = ["--json", str(out), "--store", str(store), "--overlay", str(pictures), "--per-class", "--quiet"]
    assert main([*saved(tmp_path, (data, results)), *options]) == 0
    document = json.loads(out.read_text())
    assert document["categories"] == {each["name"]: each["id"] for each in data["categories"]}
    names = sorted(path.name for path in pictures.iterdir())
    assert names and all(name.isascii() and "/" not in name for name in names)
    with Store(store) as opened:
        (head,) = opened.runs()
        rows = opened.run(head.id).rows()
    assert [row.inputs["image_id"] for row in rows] == sorted(image["id"] for image in data["images"])


def test_unknown_categories_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, results = texts(2)
    results[3]["category_id"] = "zebra "
    assert main(saved(tmp_path, (data, results))) == 0
    message = r"[3].category_id is 'zebra ', no category of"
    assert message in capsys.readouterr().err


def test_lvis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, results = renamed(random_lvis(1), 1)
    out = tmp_path / "out.json"
    options = ["--protocol", "lvis", "--json", str(out), "--per-class"]
    assert main([*saved(tmp_path, (data, results)), *options]) == 0
    found = json.loads(out.read_text())
    assert set(found["categories"].values()) == {each["id"] for each in data["categories"]}
    assert found["counts"]["detections_of_unknown_categories"] == sum(
        row["category_id"] not in found["categories"].values() for row in results
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": 5}, r"\[0\]\.image_id must be a text, as .*\[1\]\.image_id is, but got 5"),
        ({"image_id": "nowhere"}, r"must be the id of one of the 8 images but got 'nowhere'"),
    ],
)
def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, message: str) -> None:
    data, results = texts(4)
    results[0].update(change)
    assert main(saved(tmp_path, (data, results))) != 0
    assert capsys.readouterr().err
