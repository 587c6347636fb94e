"""Pictures of images: what counts as right and wrong, which images are worst, labels that do not hide one another."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import seeds
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.coco.outcomes import FN, FP, LEFT_OUT, TP, Outcomes, outcomes
from valor_gpu.errors import InputError
from valor_gpu.report.labels import free_place
from valor_gpu.report.overlay import Shape, _anchors, draw_overlay, draw_worst_images, shapes_of_image

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.image import imread, imsave
from matplotlib.transforms import Bbox

DATA = Path(__file__).parent.parent / "examples/data"
BLUE, GREEN, RED = (0, 114, 178), (0, 158, 115), (213, 94, 0)


def evaluated(ground_truth: Any, detections: Any, kind: str = "bbox", **choices: Any) -> COCOeval:
    gt = COCO()
    gt.dataset = ground_truth
    gt.createIndex()
    evaluation = COCOeval(gt, gt.loadRes(detections), kind, **choices)
    evaluation.evaluate()
    return evaluation


def scene(seed: int, kind: str = "bbox", images: int = 6) -> tuple[Any, Any]:
    """Boxes or squares as polygons of three classes, with crowds."""
    rng = np.random.default_rng([seed, 21])

    def record(number: int, box: list[float]) -> dict[str, Any]:
        x, y, w, h = box
        rest = {} if kind == "bbox" else {"segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]}
        return {"id": number, "image_id": 1 + number % images, "bbox": box, "area": w * h, **rest}

    gts, dts = [], []
    for number in range(1, 50):
        box = [*rng.integers(0, 40, 2).tolist(), *rng.integers(4, 20, 2).tolist()]
        gts.append({**record(number, box), "category_id": int(rng.integers(1, 4)), "iscrowd": int(rng.random() < 0.1)})
        for _ in range(rng.integers(0, 3)):
            moved = [box[0] + float(rng.normal(0, 2)), box[1] + float(rng.normal(0, 2)), *box[2:]]
            score, category = round(float(rng.random()), 2), int(rng.integers(1, 4))
            dts.append({**record(number, moved), "category_id": category, "score": score})
    heads = {
        "images": [{"id": i + 1, "height": 64, "width": 64} for i in range(images)],
        "categories": [{"id": k, "name": f"class {k}"} for k in (1, 2, 3)],
    }
    if kind != "bbox":
        gts = [{**g, "segmentation": {"size": [64, 64], "counts": [0, 64 * 64]}} if g["iscrowd"] else g for g in gts]
    return {**heads, "annotations": gts}, dts


def expected(evaluation: COCOeval, threshold: int) -> dict[int, list[int]]:
    """Of each image tp, fp and fn, from what pycocotools keeps."""
    found = {image: [0, 0, 0] for image in evaluation.params.imgIds}
    for cell in evaluation.evalImgs:
        if cell is None or cell["aRng"] != evaluation.params.areaRng[0]:
            continue
        kept, matched = ~cell["dtIgnore"][threshold].astype(bool), cell["dtMatches"][threshold] > 0
        missed = (np.asarray(cell["gtIgnore"]) == 0) & (cell["gtMatches"][threshold] == 0)
        numbers = (kept & matched).sum(), (kept & ~matched).sum(), missed.sum()
        found[cell["image_id"]] = [a + int(b) for a, b in zip(found[cell["image_id"]], numbers)]
    return found


def check(found: Outcomes, want: dict[int, list[int]]) -> None:
    worst = found.worst_images(len(want))
    assert [[e.image_id, e.tp, e.fp, e.fn] for e in worst] == [
        [image, *numbers]
        for image, numbers in sorted(want.items(), key=lambda item: (-item[1][1] - item[1][2], item[0]))
        if numbers[1] + numbers[2]
    ]
    assert found.worst_images(2) == worst[:2] and found.worst_images(0) == []
    for error in worst:
        d, g = found.rows_of(error.position)
        assert [(found.detections[d] == TP).sum(), (found.detections[d] == FP).sum()] == [error.tp, error.fp]
        assert (found.ground_truths[g] == FN).sum() == error.fn


@pytest.mark.parametrize("convention", ["strict", "corrected"])
@pytest.mark.parametrize("kind", ["bbox", "segm"])
@pytest.mark.parametrize("seed", seeds(2))
def test_outcomes_are_those_of_pycocotools(seed: int, kind: str, convention: str) -> None:
    evaluation = evaluated(*scene(seed, kind), kind, convention=convention)
    for threshold in (0, 5):
        found = outcomes(evaluation, evaluation.params.iouThrs[threshold])
        check(found, expected(evaluation, threshold))
        assert (found.ground_truths == LEFT_OUT).any()


def test_detections_below_a_score_or_beyond_the_limit_are_left_out() -> None:
    ground_truth, detections = scene(3)
    fewer = evaluated(ground_truth, [d for d in detections if d["score"] >= 0.4])
    check(outcomes(evaluated(ground_truth, detections), lowest_score=0.4), expected(fewer, 0))
    limited = COCOeval(fewer.cocoGt, fewer.cocoGt.loadRes(detections), "bbox")
    limited.params.maxDets = [1]
    limited.evaluate()
    check(outcomes(limited), expected(limited, 0))


def test_worst_images_of_coco() -> None:
    ground_truth = json.loads(gzip.decompress((DATA / "instances_val2014_100_masks.json.gz").read_bytes()))
    rng = np.random.default_rng(2)
    kept = [record for record in ground_truth["annotations"] if rng.random() < 0.8]
    detections = [
        {"image_id": a["image_id"], "category_id": a["category_id"], "bbox": a["bbox"], "score": float(rng.random())}
        for a in kept
    ]
    evaluation = evaluated(ground_truth, detections)
    check(outcomes(evaluation), expected(evaluation, 0))


def test_an_evaluation_that_did_not_happen_is_reported() -> None:
    with pytest.raises(InputError, match=r"evaluation must have run evaluate\(\)"):
        outcomes(COCOeval(COCO(), COCO(), "bbox"))
    with pytest.raises(InputError, match=r"iou_threshold must be in \[0, 1\] but got 2"):
        outcomes(evaluated(*scene(1)), 2)


# -------------------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_objects_of_an_image_are_drawn(kind: str, tmp_path: Path) -> None:
    evaluation = evaluated(*scene(4, kind), kind)
    found = outcomes(evaluation)
    worst = found.worst_images(1)[0]
    shapes = shapes_of_image(found, worst.position, evaluation.cocoGt, "mask" if kind == "segm" else "box")
    counts = [sum(shape.outcome == name for shape in shapes) for name in ("TP", "FP", "FN")]
    assert counts == [worst.tp, worst.fp, worst.fn]
    assert all((shape.score is None) == (shape.outcome == "FN") for shape in shapes)
    assert {shape.name for shape in shapes} <= {"class 1", "class 2", "class 3"}
    assert all((shape.mask is None) == (kind == "bbox") for shape in shapes)
    draw_overlay(tmp_path / "a.png", (64, 64), shapes, f"image {worst.image_id}")
    pixels = np.rint(imread(tmp_path / "a.png")[..., :3] * 255).astype(int)
    for color, count in zip((GREEN, RED, BLUE), counts):
        assert (np.abs(pixels - color).max(-1) <= 2).sum() > 100 * count  # outlines and labels


def test_worst_images_are_drawn(tmp_path: Path) -> None:
    ground_truth, detections = scene(5, "segm")
    for image in ground_truth["images"]:
        image["file_name"] = f"{image['id']}.png"
        imsave(tmp_path / image["file_name"], np.zeros((64, 64, 3)))
    evaluation = evaluated(ground_truth, detections, "segm")
    worst = outcomes(evaluation, 0.6, 0.2).worst_images(2)
    folder = tmp_path / "new" / "folder"
    for photos in (None, tmp_path):
        drawn = draw_worst_images(evaluation, folder, 2, photos, 0.6, 0.2)
        assert drawn == [folder / f"00{n}_{w.image_id}.png" for n, w in enumerate(worst, 1)]
        dark = np.mean([(imread(path)[..., :3] < 0.5).mean() for path in drawn])
        assert (dark > 0.3) == (photos is not None)
    (tmp_path / f"{worst[0].image_id}.png").unlink()
    with pytest.raises(InputError, match=rf"image {worst[0].image_id} must be the file .*, which does not exist"):
        draw_worst_images(evaluation, folder, 1, tmp_path)


def test_an_image_without_a_size_is_reported(tmp_path: Path) -> None:
    ground_truth, detections = scene(5)
    for image in ground_truth["images"]:
        del image["height"]
    with pytest.raises(InputError, match=r"image \d must have height and width, at least 1, but has \[None, 64\]"):
        draw_worst_images(evaluated(ground_truth, detections), tmp_path)


def test_an_image_of_too_many_pixels_costs_no_memory(tmp_path: Path) -> None:
    ground_truth, detections = scene(5)
    for image in ground_truth["images"]:
        image.update(height=10**5, width=10**5)
    with pytest.raises(InputError, match=r"must have at most 100000000 pixels to be drawn but is 100000 x 100000"):
        draw_worst_images(evaluated(ground_truth, detections), tmp_path)


def test_outlines_lie_where_the_objects_are(tmp_path: Path) -> None:
    mask = np.zeros((50, 100), bool)
    mask[10:30, 60:90] = True
    shapes = [Shape("TP", "a", (10, 10, 20, 30), 0.5), Shape("FN", "b", (60, 10, 30, 20), None, mask)]
    draw_overlay(tmp_path / "a.png", (50, 100), shapes, "")
    picture = np.rint(imread(tmp_path / "a.png")[..., :3] * 255).astype(int)
    picture = picture[50:-40]  # ten pixels per pixel of the image, between headline and legend
    assert picture.shape[:2] == (500, 1000)
    for color, columns in ((GREEN, (100, 300)), (BLUE, (600, 900))):
        hits = np.argwhere(np.abs(picture[200:280] - color).max(-1) <= 40)[:, 1]
        assert np.abs(np.subtract.outer(hits, columns)).min(1).max(initial=0) <= 3 and len(hits) > 50


def test_a_photo_lies_under_the_objects(tmp_path: Path) -> None:
    photo = np.zeros((40, 60, 3), np.uint8)
    photo[:20] = 255
    for given in (photo[..., 0], np.dstack([photo, photo[..., :1]]) / 255.0):
        draw_overlay(tmp_path / "a.png", (40, 60), [], "photo", given)
        picture = imread(tmp_path / "a.png")[..., :3]
        assert np.allclose(picture[150, 500], 1.0) and np.allclose(picture[-150, 500], 0.35, atol=0.01)
    draw_overlay(tmp_path / "b.jpg", (40, 60), [], "photo", photo)
    draw_overlay(tmp_path / "c.png", imread(tmp_path / "b.jpg").shape[:2], [], "photo", tmp_path / "b.jpg")
    with pytest.raises(InputError, match=r"photo must be 40 pixels high and 61 wide but has shape \[40, 60, 3\]"):
        draw_overlay(tmp_path / "a.png", (40, 61), [], "photo", photo)


def test_labels_lie_apart_and_inside() -> None:
    frame = Bbox.from_bounds(0, 0, 400, 300)
    taken: list[Any] = []
    rng = np.random.default_rng(6)
    for _ in range(40):
        x, y = rng.uniform(0, 350), rng.uniform(0, 250)
        place = free_place(np.array([[x, y + 40], [x + 30, y], [x + 15, y + 40]]), 50, 12, frame, taken)
        if place is not None:
            taken.append(Bbox.from_bounds(*place, 50, 12))
    assert len(taken) > 30
    for i, a in enumerate(taken):
        assert 0 <= a.x0 <= a.x1 <= 400 and 0 <= a.y0 <= a.y1 <= 300
        assert not any(a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1 for b in taken[:i])


def test_the_label_of_a_mask_lies_on_it_where_the_top_is_taken() -> None:
    mask = np.zeros((100, 300), bool)
    mask[np.arange(300) // 3, np.arange(300)] = True  # a diagonal, whose box is mostly empty
    top, *inside = _anchors(Shape("FP", "a", (0, 0, 300, 100), 0.5, mask))[2:]
    assert top[1] == 0 and all(mask[int(y), int(x)] for x, y in inside)
    anchors = np.array([[0, 100], [300, 0], [1.5, 100], *([x, 100 - y] for x, y in inside)])
    frame = Bbox.from_bounds(0, 0, 300, 140)
    taken = [Bbox.from_bounds(0, 95, 60, 30)]
    x, y = inside[0]
    assert free_place(anchors, 40, 12, frame, taken) == (x - 20, 100 - y - 6)


def test_odd_names_and_many_objects(tmp_path: Path) -> None:
    names = ["a$x^{$", "猫", "line\nbreak", "x" * 90, "_", "\ud800"]
    shapes = [Shape("FP", name, (5, 5, 10, 10), 0.5) for name in names * 40]
    draw_overlay(tmp_path / "a.svg", (30, 30), shapes, "$\\alpha{")
    assert "without room" in (tmp_path / "a.svg").read_text()
    draw_overlay(
        tmp_path / "a.png", (1, 3000), [Shape("TP", "empty", (0, 0, 0, 0), 1.0, np.zeros((1, 3000), bool))], ""
    )


@pytest.mark.parametrize(
    ("shape", "size", "said"),
    [
        (Shape("tp", "a", (0, 0, 1, 1)), (4, 4), "outcome must be one of 'FN', 'TP', 'FP' but got 'tp'"),
        (Shape("TP", "a", (0, 0, 1, 1), 1.0, np.zeros((4, 5), bool)), (4, 4), r"mask must have shape \[4, 4\] but got"),
        (Shape("TP", "a", (0, 0, 1, 1)), (0, 4), "size must be at least 1 x 1 but got 0 x 4"),
    ],
)
def test_what_does_not_fit_is_reported(shape: Shape, size: tuple[int, int], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        draw_overlay(tmp_path / "a.png", size, [shape], "")
    assert list(tmp_path.iterdir()) == []
