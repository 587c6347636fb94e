"""``valor-gpu detect --overlay``: pictures of the worst images, and errors before any work."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.keypoint_scenes import random_keypoints
from tests.test_overlay import scene
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.inputs.coco_rotated import corners_of

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.image import imread, imsave

DATA = Path(__file__).parent.parent / "examples/data"
MASKS = (DATA / "instances_val2014_100_masks.json.gz", DATA / "instances_val2014_fakesegm100_results.json.gz")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Boxes and masks on two images of 64 x 64 pixels."""
    return saved(tmp_path, *scene(5, "segm", images=2))


def saved(folder: Path, truth: dict[str, Any], found: list[dict[str, Any]]) -> list[str]:
    for image in truth["images"]:
        image["file_name"] = f"photo_{image['id']}.png"
    paths = [folder / "gt.json", folder / "dt.json"]
    for path, value in zip(paths, (truth, found)):
        path.write_text(json.dumps(value))
    return list(map(str, paths))


def detect(files: Any, *options: Any) -> int:
    return main(["detect", "--gt", str(files[0]), "--dt", str(files[1]), *map(str, options)])


def test_worst_images_of_coco_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new/pictures"
    out = tmp_path / "out.json"
    assert detect(MASKS, "--iou-type", "segm", "--overlay", folder, "--overlay-count", 2, "--json", out) == OK
    text = capsys.readouterr().out
    assert [line.split()[-1] for line in text.splitlines()[:12]] == (
        ["0.320", "0.562", "0.299", "0.387", "0.310", "0.327", "0.268", "0.415", "0.417", "0.469", "0.377", "0.381"]
    )
    names = ["001_196.png", "002_761.png"]
    assert text.splitlines()[-3:] == [f"wrote {path}" for path in (out, *(folder / name for name in names))]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert imread(folder / names[0]).shape[1] == 1000


@pytest.mark.parametrize("kind", ["bbox", "segm", "boundary"])
def test_photos_lie_under_the_objects(
    kind: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, folder = tmp_path / "photos", tmp_path / "pictures"
    photos.mkdir()
    imsave(photos / "photo_1.png", np.zeros((64, 64, 3)))
    assert detect(files, "--iou-type", kind, "--overlay", folder, "--images", photos) == OK
    shown = capsys.readouterr()
    dark = {int(path.stem.split("_")[1]): (imread(path)[..., :3] < 0.5).mean() > 0.2 for path in folder.iterdir()}
    assert dark == {1: True, 2: False}
    assert f"warning: 1 photo is not there, drawn on a plain canvas instead: {photos / 'photo_2.png'}\n" in shown.err
    assert shown.out.count("wrote ") == 2


def test_a_bad_photo_costs_no_numbers(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, folder = tmp_path / "photos", tmp_path / "pictures"
    photos.mkdir()
    (photos / "photo_1.png").write_bytes(b"no picture")
    imsave(photos / "photo_2.png", np.zeros((64, 65, 3)))
    assert detect(files, "--overlay", folder, "--images", photos) == OK
    shown = capsys.readouterr()
    assert shown.out.count("wrote ") == 2 and "Average Precision" in shown.out
    assert "warning: 2 photos cannot be used, drawn on a plain canvas instead: " in shown.err
    assert "and others" in shown.err


@pytest.mark.parametrize("angle", [0.0, 30.0, 135.0, -70.0])
def test_rotated_boxes_are_drawn(angle: float, tmp_path: Path) -> None:
    box = np.array([[32.0, 30.0, 40.0, 14.0, angle]])
    corners = corners_of(box)
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "area": 560.0, "iscrowd": 0}
    truth = {"images": [{"id": 1, "height": 64, "width": 64}], "categories": [{"id": 1, "name": "ship"}]}
    found = [{"image_id": 1, "category_id": 1, "bbox": corners.ravel().tolist(), "score": 0.9}]
    files, out = saved(tmp_path, {**truth, "annotations": [{**annotation, "bbox": box[0].tolist()}]}, found), tmp_path
    assert detect(files, "--iou-type", "rotated", "--json", out / "out.json") == OK
    assert json.loads((out / "out.json").read_text())["values"]["map_75"] > 0.999
    found[0]["bbox"] = [10.0, 10.0, 5.0, 5.0, angle]
    files = saved(tmp_path, {**truth, "annotations": [{**annotation, "bbox": box[0].tolist()}]}, found)
    assert detect(files, "--iou-type", "rotated", "--overlay", tmp_path / "pictures") == OK
    picture = imread(tmp_path / "pictures/001_1.png")[..., :3]
    blue = np.abs(picture - [0, 0x72 / 255, 0xB2 / 255]).max(2) < 0.1
    scale, top = 1000 / 64, 50
    middles = (corners[0] + np.roll(corners[0], 1, 0)) / 2 * scale
    for x, y in middles:
        row, column = int(y + top), int(x)
        assert blue[row - 6 : row + 7, column - 20 : column + 21].any()


@pytest.mark.parametrize("options", [["--iou-type", "keypoints"], ["--protocol", "crowdpose"]])
def test_keypoints_are_drawn(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crowd = "crowdpose" in options
    truth, found = random_keypoints(2, 14 if crowd else 17, crowdpose=crowd)
    plain = [tmp_path / "dots", tmp_path / "lines"]
    for folder, skeleton in zip(plain, ([], [[1, 2], [2, 3], [0, 1], [3, 99]])):
        truth["categories"][0]["skeleton"] = skeleton
        assert detect(saved(tmp_path, truth, found), *options, "--overlay", folder, "--overlay-count", 1) == OK
    first, second = (next(folder.iterdir()) for folder in plain)
    assert first.name == second.name and first.read_bytes() != second.read_bytes()
    assert "wrote " in capsys.readouterr().out


def test_the_score_limits_what_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, found = scene(5)
    found = [{**record, "score": -record["score"]} for record in found]  # a score may be negative
    given, folders = saved(tmp_path, truth, found), [tmp_path / name for name in "abc"]
    for folder, options in zip(folders, ([], ["--overlay-score", "-1"], ["--overlay-score", "0.5"])):
        assert detect(given, "--overlay", folder, "--overlay-count", 1, *options) == OK
    a, b, c = (next(folder.iterdir()).read_bytes() for folder in folders)
    assert a == b != c


def test_no_error_is_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, _ = scene(5)
    truth["annotations"] = truth["annotations"][:1]
    found = [{**truth["annotations"][0], "score": 0.5}]
    assert detect(saved(tmp_path, truth, found), "--overlay", tmp_path / "none") == OK
    assert capsys.readouterr().out.endswith(f"no picture in {tmp_path / 'none'}: no image has an error\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--overlay", "{}/gt.json"], "--overlay must be a folder but {}/gt.json is a file"),
        (["--overlay", "{}/gt.json/a"], "--overlay must be a folder but {}/gt.json is a file"),
        (["--images", "{}"], "--overlay must be given with --images but is not"),
        (["--overlay-count", "3"], "--overlay must be given with --overlay-count but is not"),
        (["--overlay-score", "3"], "--overlay must be given with --overlay-score but is not"),
        (["--overlay", "{}/a", "--images", "{}/b"], "--images must be a folder but {}/b does not exist"),
        (["--overlay", "{}/a", "--images", "{}/gt.json"], "--images must be a folder but {}/gt.json is a file"),
        (["--overlay", "{}", "--images", "{}"], "--overlay must be another folder than --images but both are {}"),
    ],
)
def test_errors_come_before_any_work(
    options: list[str], message: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files[1]).write_text("[")  # would be reported, if it were read
    assert detect(files, *(option.replace("{}", str(tmp_path)) for option in options)) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"valor-gpu detect: error: {message.replace('{}', str(tmp_path))}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dt.json", "gt.json"]


@pytest.mark.parametrize("option", [["--overlay-count", "0"], ["--overlay-score", "nan"], ["--overlay-score", "x"]])
def test_numbers_are_checked(option: list[str], files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        detect(files, "--overlay", "pictures", *option)
    assert f"argument {option[0]}: must be a" in capsys.readouterr().err


def test_the_extra_is_named(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "matplotlib" else find(name, *a))
    assert detect(files, "--overlay", tmp_path / "pictures") == FAILURE
    assert "--overlay needs matplotlib: pip install 'valor_gpu[plot]'" in capsys.readouterr().err
    assert not (tmp_path / "pictures").exists()


def test_a_picture_that_cannot_be_drawn_leaves_no_numbers(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = json.loads(Path(files[0]).read_text())
    for image in truth["images"]:
        del image["width"]
    Path(files[0]).write_text(json.dumps(truth))
    assert detect(files, "--overlay", tmp_path / "pictures", "--json", tmp_path / "out.json") == BAD_INPUT
    assert "must have height and width, at least 1, but has [64, None]" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
