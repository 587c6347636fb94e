"""The HTML report of detections: valid, safe, self-contained, and its numbers those of the result."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.html_pages import Page
from valor_gpu.analysis.confusion import ClassConfusion
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.pages.numbers import difference
from valor_gpu.report.detection_html import detection_report
from valor_gpu.report.error_sections import confusion_section
from valor_gpu.report.image_sections import lines_of
from valor_gpu.report.outlines import mask_lines
from valor_gpu.report.scenes import MOST_SHAPES, Drawn, photo_address, scene
from valor_gpu.result import Result, Signature

DATA = Path(__file__).parents[2] / "examples/data"


def evaluated(truth: Any, found: Any, kind: str = "bbox") -> COCOeval:
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truths = COCO()
        ground_truths.dataset = truth
        ground_truths.createIndex()
        evaluation = COCOeval(ground_truths, ground_truths.loadRes(found), kind)
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation


def real_files() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    names = ("instances_val2014_100.json", "instances_val2014_fakebbox100_results.json")
    truth, found = (json.loads((DATA / name).read_text()) for name in names)
    return truth, found


@pytest.fixture(scope="module")
def result() -> Result:
    return evaluated(*real_files()).result()


def small(names: list[str], file: str = "photo.png") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One image of 40 x 30 pixels: the first class found, the second missed, and a wrong box of the first."""
    boxes = [(1, [2, 2, 10, 10]), (len(names), [20, 15, 12, 10])]
    truth = {
        "images": [{"id": 7, "width": 40, "height": 30, "file_name": file}],
        "categories": [{"id": i, "name": name} for i, name in enumerate(names, 1)],
        "annotations": [
            {"id": i, "image_id": 7, "category_id": c, "bbox": b, "area": b[2] * b[3], "iscrowd": 0}
            for i, (c, b) in enumerate(boxes, 1)
        ],
    }
    found = [([2, 2, 10, 9], 0.9), ([30, 2, 5, 5], 0.8)]
    return truth, [{"image_id": 7, "category_id": 1, "bbox": box, "score": score} for box, score in found]


def test_page_is_whole_and_needs_nothing_else(result: Result) -> None:
    page = detection_report(
        result, "model <7>", files={"detections": {"path": "a/b.json", "bytes": 12, "sha256": "0f"}}
    )
    parsed = Page(page)
    assert not re.search(r"https?://|//[a-z]|@import|url\(|<script|javascript:", page)
    assert {tag for tag, _ in parsed.elements}.isdisjoint({"script", "link", "iframe", "img", "object", "form"})
    assert not any(name.startswith("on") or name == "style" for _, each in parsed.elements for name in each)
    ids = [each["id"] for _, each in parsed.elements if "id" in each]
    assert len(ids) == len(set(ids))
    links = [each["href"].removeprefix("#") for each in parsed.of("a")]
    assert links == ["main", "numbers", "errors", "classes", "points", "confusion", "images", "choices"]
    assert set(links) <= set(ids)
    assert all(each.get("aria-label") for each in parsed.of("svg") if each.get("role") == "img")
    assert all(each.get("scope") in ("col", "row") for each in parsed.of("th"))
    assert "model <7>" in parsed.text and "a/b.json" in parsed.text and str(result.signature) in parsed.text
    assert len(page) < 400_000


def test_equal_arguments_give_equal_bytes(result: Result) -> None:
    first = detection_report(result, "m")
    assert detection_report(evaluated(*real_files()).result(), "m") == first


def test_numbers_are_those_of_the_result(result: Result) -> None:
    text = Page(detection_report(result)).text
    assert f"AP mean over IoU {result.values['map']:.3f}" in text
    errors, points = result.errors(), result.operating_points()
    for kind, gain in errors.values["gains"].items():
        shown = difference(gain, 3).replace("+", "[+]")
        assert re.search(rf"{kind.replace('_', ' ')} [a-z, ]+ {errors.counts[kind]:,} {shown}", text), kind
    assert f"score threshold all classes together {points.values['score_threshold']:.3f}" in text
    assert f"at IoU 0.5 and scores from {points.values['score_threshold']:.3g}" in text
    worst = min(((v, n) for n, v in result.values["map_per_class"].items() if v > 0))
    assert f"{worst[1]} {worst[0]:.3f}" in text
    table = result.images(score=points.values["score_threshold"])
    order = np.argsort(-(np.asarray(table["false_positives"]) + np.asarray(table["false_negatives"])), kind="stable")[0]
    counts = [int(table[name][order]) for name in ("true_positives", "false_positives", "false_negatives")]
    assert f"id {table['image_id'][order]} " in text
    assert "{} correct, {} wrong, {} missed".format(*counts) in text


def test_intervals_are_shown(result: Result) -> None:
    drawn = result.with_intervals(30)
    text = Page(detection_report(drawn)).text
    interval = drawn.intervals["map"]
    assert f"{interval.low:.3f} to {interval.high:.3f}" in text
    assert "95% intervals of E[map] at 100 images: 30 replicates of images" in text
    assert "too few images" in text


def test_slices_and_precomputed_answers_are_shown(result: Result) -> None:
    slices = result.by("crowding")
    page = detection_report(
        result, errors=result.errors([0.5, 0.75], [0.1, 0.1]), slices=slices,
        operating_points=result.operating_points(precision=0.9), iou=0.6, score=0.4, worst=2,
    )  # fmt: skip
    text = Page(page).text
    assert "at IoU 0.5; background up to IoU 0.1" in text and "at IoU 0.75; background up to IoU 0.1" in text
    assert "precision of at least 0.9 at IoU 0.5" in text
    assert f"crowding: {slices['value'][0]}" in text
    assert "at IoU 0.6 and scores from 0.4" in text
    assert page.count('class="scene" ') == 2


def test_classes_without_a_threshold_are_grouped_by_their_reason(result: Result) -> None:
    points = result.operating_points(precision=0.95)
    reasons = [points.reason(f"score_threshold_per_class/{name}") for name in points.values["f1_per_class"]]
    details = {reason.partition(": ")[2] for reason in reasons if reason and ": " in reason}
    assert len(details) > 1
    text = Page(detection_report(result, "model", operating_points=points)).text
    assert text.count("no threshold: no threshold reaches precision 0.95") == 1
    assert all(f"({detail})" in text for detail in details)


def test_texts_of_others_are_escaped() -> None:
    names = ['<b>cat & "dog"\'</b>', "חתול\u202eevil", "a\x00b</title><script>x()</script>"]
    truth, found = small(names, "<img src=x onerror=y>.png")
    page = detection_report(evaluated(truth, found).result(), "</title><script>alert(1)</script>")
    parsed = Page(page)
    assert "<script" not in page and "<b>cat" not in page and "\x00" not in page and "\u202e" not in page
    assert names[0] in parsed.text and "חתול" in parsed.text and "[U+202E]" in parsed.text and "␀" in parsed.text
    assert "</title><script>alert(1)</script>" in parsed.text


@pytest.mark.parametrize("classes", [1, 3, 1203])
def test_any_number_of_classes(classes: int) -> None:
    rng = np.random.default_rng(classes)
    truth: dict[str, Any] = {
        "images": [{"id": i, "width": 200, "height": 100, "file_name": f"{i}.jpg"} for i in range(1, 301)],
        "categories": [{"id": i, "name": f"class {i}"} for i in range(1, classes + 1)],
    }
    boxes = np.concatenate([rng.integers(0, 60, (3000, 2)), rng.integers(5, 40, (3000, 2))], 1).tolist()
    labels = [i % classes + 1 for i in range(3000)]
    truth["annotations"] = [
        {"id": i, "image_id": i % 300 + 1, "category_id": c, "bbox": b, "area": b[2] * b[3], "iscrowd": 0}
        for i, (b, c) in enumerate(zip(boxes, labels), 1)
    ]
    found = [
        {"image_id": each["image_id"], "category_id": int(rng.integers(1, classes + 1)) if rng.random() < 0.3
         else each["category_id"], "bbox": each["bbox"], "score": round(float(rng.random()), 3)}
        for each in truth["annotations"] if each["id"] % 7
    ]  # fmt: skip
    page = detection_report(evaluated(truth, found).result())
    parsed = Page(page)
    assert len(page.encode()) < 3_000_000
    assert (f"{classes - 20:,} more classes" in parsed.text) == (classes > 22)
    assert ('id="confusion"' in page) == (classes > 1)
    assert page.count('class="scene" ') == 12


def test_matrix_has_the_classes_that_are_confused_most() -> None:
    """Of 15 classes the first five are never confused; K, 15, stands for no object."""
    truths = np.array([*range(15), *range(5, 14), 14, 15])
    guesses = np.array([*range(15), *range(6, 15), 15, 3])
    counts = np.array([50] * 15 + list(range(2, 11)) + [4, 1])
    found = ClassConfusion([f"class {i}" for i in range(15)], truths, guesses, counts, 0.5, 0.25)
    parsed = Page(confusion_section(found))
    assert [i for i in range(15) if parsed.words.count(f"class {i}") >= 2] == [*range(5, 15)]
    assert "The 10 classes with most confusions, of 15." in parsed.text
    assert "class 13 class 14 10 16.7%" in parsed.text and "class 3" not in parsed.words
    pairs = re.findall(r"class (\d+) class (\d+) (\d+) \d", parsed.text)
    assert [int(count) for *_, count in pairs[-9:]] == [10, 9, 8, 7, 6, 5, 4, 3, 2]


def test_sections_say_why_they_are_not_there() -> None:
    truth, found = small(["cat", "dog"])
    for each in truth["annotations"]:
        each |= {"keypoints": [5, 5, 2, 9, 9, 1] * 8 + [0, 0, 0], "num_keypoints": 16}
    for each in found:
        each["keypoints"] = [5, 5, 1, 9, 9, 1] * 8 + [0, 0, 0]
    page = Page(detection_report(evaluated(truth, found, "keypoints").result()))
    assert "Not shown: errors() is not defined for keypoints" in page.text
    assert "Score thresholds" in page.text and "1 correct" in page.text


@pytest.mark.parametrize("errors", [False, True])
def test_metric_without_boxes_lists_its_worst_images(errors: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from valor_gpu.detection import MeanAveragePrecision

    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
    metric = MeanAveragePrecision(errors=errors)
    metric.update(
        [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 1])}],
        [{"boxes": boxes[:1], "labels": torch.tensor([0])}],
    )
    text = Page(detection_report(metric.result(), score=0.1)).text
    assert "The images are not drawn, for the result keeps no boxes" in text and "Choices" in text
    assert "Image Errors Correct Wrong Missed 0 1 1 1 0" in text
    assert ("errors=True" in text) != errors


def test_no_error_and_no_ground_truth() -> None:
    truth, found = small(["cat"])
    perfect = [dict(each, score=0.5) for each in found[:1]]
    perfect[0]["bbox"] = truth["annotations"][0]["bbox"]
    truth["annotations"] = truth["annotations"][:1]
    assert "No image has an error." in Page(detection_report(evaluated(truth, perfect).result())).text
    truth["annotations"] = []
    text = Page(detection_report(evaluated(truth, perfect).result())).text
    assert "AP mean over IoU ·" in text and "1 class has no AP" in text


def test_bad_arguments(result: Result) -> None:
    with pytest.raises(InputTypeError, match="result must be Result but got int"):
        detection_report(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="worst must be at least 1 but got 0"):
        detection_report(result, worst=0)
    with pytest.raises(InputError, match="iou must be"):
        detection_report(result, iou=1.5)
    with pytest.raises(InputError, match="needs the data that the result came from"):
        detection_report(Result({"map": 0.5}, Signature({})))


# -------------------------------------------------------------------------------------------------------------- photos


def test_photos_lie_under_the_objects(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image.fromarray(np.full((30, 40, 3), 200, np.uint8)).save(tmp_path / "photo.png")
    result, problems = evaluated(*small(["cat", "dog"])).result(), list[str]()
    page = detection_report(result, photos=tmp_path, on_problem=problems.append)
    assert page.count('<image href="data:image/jpeg;base64,') == 1 and problems == []
    assert "img-src data:" in page
    Page(page)


@pytest.mark.parametrize(
    ("file", "size", "problem"),
    [
        ("absent.png", None, "photo .*absent.png is not there"),
        ("../photo.png", None, "photo '../photo.png' must lie in "),
        ("photo.png", (31, 40), "must have 40 x 30 pixels but has 40 x 31"),
        ("photo.png", (0, 0), "photo.png cannot be read: "),
    ],
)
def test_a_bad_photo_costs_no_page(file: str, size: Any, problem: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    if size == (0, 0):
        (tmp_path / "photo.png").write_bytes(b"no picture")
    elif size:
        image.fromarray(np.zeros((*size, 3), np.uint8)).save(tmp_path / "photo.png")
    problems: list[str] = []
    page = detection_report(evaluated(*small(["cat"], file)).result(), photos=tmp_path, on_problem=problems.append)
    assert len(problems) == 1 and re.search(problem, problems[0])
    assert "1 photo is not shown: photo" in Page(page).text and "<image" not in page


def test_large_photos_shrink(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    noise = np.random.default_rng(0).integers(0, 255, (1500, 2000, 3)).astype(np.uint8)
    image.fromarray(noise).save(tmp_path / "large.png")
    assert len(photo_address(tmp_path, "large.png", (2000, 1500))) < 1_000_000


# -------------------------------------------------------------------------------------------------------------- scenes


def test_lines_of_every_shape() -> None:
    assert lines_of({"bbox": [1, 2, 3, 4]}) == ([[(1.0, 2.0), (4.0, 2.0), (4.0, 6.0), (1.0, 6.0)]], [])
    polygon = {"bbox": [0, 0, 9, 9], "segmentation": [[0, 0, 4, 0, 4, 3]]}
    assert lines_of(polygon) == ([[(0.0, 0.0), (4.0, 0.0), (4.0, 3.0)]], [])
    (turned,), dots = lines_of({"bbox": [10, 10, 8, 4, 90]})
    assert dots == [] and sorted((round(x), round(y)) for x, y in turned) == [(8, 6), (8, 14), (12, 6), (12, 14)]
    assert lines_of({"bbox": [0, 0, 1, 0, 1, 1, 0, 1]})[0] == [[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]]
    assert lines_of({"bbox": [0, 0, 1, 1], "keypoints": [5, 6, 2, 0, 0, 0]})[1] == [(5.0, 6.0)]
    assert lines_of({}) == ([], [])


def test_masks_have_outlines() -> None:
    ring = np.ones((5, 6), np.uint8)
    ring[2, 3] = 0
    outer, inner = mask_lines(np.pad(ring, 1))
    assert (min(outer), max(outer)) == ((1.0, 1.5), (7.0, 5.5)) and len(outer) == 8
    assert sorted(inner) == [(4.0, 3.5), (4.5, 3.0), (4.5, 4.0), (5.0, 3.5)]
    assert mask_lines(np.zeros((3, 3))) == []
    corner = np.eye(2)
    assert sorted(map(len, mask_lines(corner))) == [4, 4]
    large = np.zeros((600, 1200))
    large[200:400, 300:900] = 1
    (line,) = mask_lines(large)
    found = np.array(line)
    assert np.abs(found.min(0) - [300, 200]).max() <= 10 and np.abs(found.max(0) - [900, 400]).max() <= 10
    assert lines_of({"bbox": [0, 0, 2, 2], "segmentation": {"size": [2, 4], "counts": [0, 8]}})[0] == mask_lines(
        np.ones((2, 4))
    )


@pytest.mark.parametrize("seed", range(5))
def test_outlines_enclose_the_mask(seed: int) -> None:
    """Centres of cells inside the mask, and they alone, lie within an odd number of lines."""
    mask = np.random.default_rng(seed).random((20, 30)) < 0.6
    inside = np.zeros(mask.shape, np.int64)
    ys, xs = np.mgrid[:20, :30] + 0.5
    for line in mask_lines(mask):
        points = np.array(line)
        for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, 0)):
            if y0 != y1:
                crosses = (np.minimum(y0, y1) <= ys) & (ys < np.maximum(y0, y1))
                inside += crosses & (xs < x0 + (ys - y0) * (x1 - x0) / (y1 - y0))
    assert ((inside % 2 == 1) == mask).all()


def test_scene_draws_errors_first_and_counts_the_rest() -> None:
    square = [[(0.0, 0.0), (9.0, 0.0), (9.0, 9.0)]]
    objects = [Drawn("TP", "cat", 0.5, square)] * 100 + [Drawn("FN", "dog", None, square)] * 100
    drawn = scene((100, 50), objects, "", "words")
    assert drawn.count("<g>") == MOST_SHAPES and drawn.count('class="FN"') == 100
    assert 'viewBox="0 0 480 240"' in drawn and "dog, missed" in drawn and "cat 0.50, correct" in drawn
    assert drawn.count("<text") < 10  # names that would hide others are left to the titles


def test_scene_has_no_number_that_a_browser_rejects() -> None:
    assert not re.search(r"nan|inf", scene((3, 4000), [Drawn("FP", "x" * 99, math.pi, [[(-5.0, 1e5)]])], "", ""))
