"""Files as annotation tools export them: the numbers of pycocotools, or an error that says where and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coco.comparison import OURS, THEIRS, Run, load, quietly, run, same_runs
from tests.coco.export_shapes import SHAPES, Dataset, Row, detections_on, people
from tests.coco.test_keypoints import same_keypoint_runs
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.coco import COCO, LVIS
from valor_gpu.detection import MeanAveragePrecision, coco_targets
from valor_gpu.errors import InputError

WITHOUT_MASKS = ("cvat", "fiftyone", "supervision_boxes", "supervision_masks", "roboflow", "globox", "visdrone")
MASKED = tuple(name for name in SHAPES if name not in WITHOUT_MASKS)
EVALUATED = [*((name, "bbox") for name in SHAPES), *((name, kind) for name in MASKED for kind in ("segm",))]


def saved(folder: Path, dataset: Any, results: Any) -> tuple[str, str]:
    paths = folder / "export.json", folder / "results.json"
    for path, value in zip(paths, (dataset, results)):
        path.write_text(json.dumps(value))
    return str(paths[0]), str(paths[1])


def evaluated(side: Any, paths: tuple[str, str], kind: str) -> Run:
    """A run over the files."""
    truth = quietly(side.COCO, paths[0])[0]
    return run(side.COCOeval(truth, quietly(truth.loadRes, paths[1])[0], kind))


def check(folder: Path, dataset: Dataset, results: list[Row], kind: str) -> None:
    """Asserts that the files have the numbers of pycocotools, from the classes and from the command."""
    paths = saved(folder, dataset, results)
    theirs, ours = (evaluated(side, paths, kind) for side in (THEIRS, OURS))
    (same_keypoint_runs if kind == "keypoints" else same_runs)(theirs, ours)
    assert 0 < ours.e.stats[0] < 0.9
    out = folder / "out.json"
    assert main(["detect", "--gt", paths[0], "--dt", paths[1], "--iou-type", kind, "--json", str(out)]) == OK
    same_order = 5 if kind == "keypoints" else 12
    values = list(json.loads(out.read_text())["values"].values())[:same_order]
    assert [-1.0 if value is None else value for value in values] == theirs.e.stats.tolist()[:same_order]


@pytest.mark.parametrize(("name", "kind"), EVALUATED)
def test_exports_have_the_numbers_of_pycocotools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    dataset = SHAPES[name]()
    check(tmp_path, dataset, detections_on(dataset, kind), kind)
    if all(annotation["id"] for annotation in dataset["annotations"]):  # id 0 is no match, in strict
        assert capsys.readouterr().err == ""  # nothing else of an export is in doubt


@pytest.mark.parametrize("kind", ["bbox", "keypoints"])
def test_people_have_the_numbers_of_pycocotools(tmp_path: Path, kind: str) -> None:
    dataset = people()
    check(tmp_path, dataset, detections_on(dataset, kind), kind)


@pytest.mark.parametrize("name", ["datumaro", "cvat", "fiftyone"])
def test_the_corrected_convention_agrees_where_there_is_no_quirk(tmp_path: Path, name: str) -> None:
    dataset = SHAPES[name]()
    paths = saved(tmp_path, dataset, detections_on(dataset, "bbox"))
    truth = quietly(COCO, paths[0])[0]
    found = quietly(truth.loadRes, paths[1])[0]
    strict, corrected = (run(OURS.COCOeval(truth, found, "bbox", convention=c)) for c in ("strict", "corrected"))
    assert strict["precision"].tobytes() == corrected["precision"].tobytes()


def test_results_with_the_keys_of_annotations(tmp_path: Path) -> None:
    """sahi's results: names, areas, crowd flags and empty masks beside the boxes."""
    dataset = SHAPES["labelme2coco"]()
    extra = {"category_name": "cat", "segmentation": [], "iscrowd": 0, "area": 7}
    check(tmp_path, dataset, [{**row, **extra} for row in detections_on(dataset, "bbox")], "bbox")


@pytest.mark.parametrize("kind", ["segm", "boundary"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cvat", r"annotations[1].segmentation (id 2) must be a list of polygons, each a list of at least 6 numbers"
                 " but got []: iou type bbox compares boxes"),
        ("supervision_masks", "annotations[3].segmentation (id 4) must be a list of polygons, each a list of at least 6"
                              " numbers but got [[22, 111, 28, 119]]: iou type bbox compares boxes"),
        ("fiftyone", "annotations[0] must have segmentation but has only id, image_id, category_id, bbox, area, score,"
                     " iscrowd (null counts as missing; iou type bbox compares boxes)"),
    ],
)  # fmt: skip
def test_masks_that_an_export_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str, kind: str
) -> None:
    """pycocotools stops with an IndexError, a TypeError or a KeyError."""
    dataset = SHAPES[name]()
    paths = saved(tmp_path, dataset, detections_on(dataset, "segm"))
    with pytest.raises((IndexError, TypeError, KeyError), match=r"list index|bb|segmentation"):
        evaluated(THEIRS, paths, "segm")
    with pytest.raises(InputError) as error:
        evaluated(OURS, paths, kind)
    assert str(error.value) == f"{paths[0]}: {message}"
    assert main(["detect", "--gt", paths[0], "--dt", paths[1], "--iou-type", kind]) == BAD_INPUT
    assert f"error: {paths[0]}: {message}" in capsys.readouterr().err


def test_a_mask_without_a_box_is_told_of_no_boxes() -> None:
    dataset: Dataset = {
        "images": [{"id": 1, "height": 9, "width": 9}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": [], "area": 4, "iscrowd": 0}],
        "categories": [{"id": 1}],
    }
    truth = load(OURS, dataset)
    results = [{"image_id": 1, "category_id": 1, "score": 1.0, "segmentation": {"size": [9, 9], "counts": [81]}}]
    with pytest.raises(InputError, match=r"at least 6 numbers but got \[\]$"):
        run(OURS.COCOeval(truth, quietly(truth.loadRes, results)[0], "segm"))


# ----------------------------------------------------------------------------------------------- files of other formats

LABELME = {"version": "5.8.1", "flags": {}, "shapes": [], "imagePath": "a.jpg", "imageHeight": 9, "imageWidth": 9}
VIA = {"a.jpg" * 9: {"filename": "a.jpg", "size": 1, "regions": []}}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (LABELME, "version, flags, shapes, imagePath, imageHeight and 1 more"),
        (VIA, "a.jpga.jpga.jpga.jpga.jpga.jpg..."),
        ({"type": "FeatureCollection", "features": []}, "type, features"),
    ],
)
def test_the_format_of_a_tool_is_no_dataset(tmp_path: Path, value: Any, names: str) -> None:
    """pycocotools loads it and says of the results that they do not belong to it."""
    path, _ = saved(tmp_path, value, [])
    message = (
        f"{path} must have images, annotations and categories but has only {names}: export it as COCO JSON, or"
        " convert it"
    )
    for read in (COCO, LVIS, coco_targets, lambda name: MeanAveragePrecision.coco_to_tm(name, name)):
        with pytest.raises(InputError) as error:
            quietly(read, path)
        assert str(error.value) == message
    with pytest.raises(InputError, match=r"dataset must have images, annotations and categories but has only"):
        load(OURS, value).columns  # noqa: B018


@pytest.mark.parametrize("value", [{}, {"info": {}}, {"licenses": []}, {"images": []}])
def test_a_dataset_may_be_empty(tmp_path: Path, value: Any) -> None:
    path, _ = saved(tmp_path, value, [])
    assert quietly(COCO, path)[0].getImgIds() == []


@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?>\n<annotations/>',
        "imagesource:GoogleEarth\ngsd:0.146\n2753 2408 2861 2385 2888 2468 2805 2502 plane 0\n",
        "684,8,273,116,0,0,0,0\n",
        " 0 0.5 0.5 0.1 0.2\n",
    ],
)
def test_files_that_are_no_json(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pascal VOC and CVAT, DOTA, VisDrone, YOLO."""
    path = tmp_path / "labels.txt"
    path.write_text(text)
    with pytest.raises(
        InputError, match=r"byte \d: needed a JSON object but .*: export it as COCO JSON, or convert it$"
    ):
        quietly(COCO, path)
    monkeypatch.setattr("valor_gpu.native.usable", lambda name: False)
    with pytest.raises(InputError, match=r"labels\.txt: byte \d+: .*: export it as COCO JSON, or convert it$"):
        quietly(COCO, path)


def test_json_that_ends_has_no_other_format(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text('{"images": [{"id": 1}], "annotations": [')
    with pytest.raises(InputError) as error:
        quietly(COCO, path)
    assert "convert" not in str(error.value)


def test_results_on_a_dataset_without_images() -> None:
    truth = load(OURS, {"annotations": [], "categories": [{"id": 1}]})
    result = {"image_id": 4, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 0.5}
    with pytest.raises(InputError, match=r"one of the 0 images but got 4: the ground truth lists no images$"):
        quietly(truth.loadRes, [result])


def test_the_shapes_differ_in_what_tools_differ_in() -> None:
    """First ids of images, categories and annotations; forms of segmentation; other keys."""
    firsts = {name: tuple(make()[part][0]["id"] for part in ("images", "categories", "annotations"))
              for name, make in SHAPES.items()}  # fmt: skip
    assert {first[0] for first in firsts.values()} >= {0, 1, 11, 2007000027}
    assert {first[1] for first in firsts.values()} == {0, 1}
    forms = {type(a.get("segmentation")) for make in SHAPES.values() for a in make()["annotations"]}
    assert forms == {list, dict, type(None)}
    assert np.unique([a["iscrowd"] for make in SHAPES.values() for a in make()["annotations"]]).tolist() == [0, 1]
