"""Operating points: a plain loop over all thresholds, scikit-learn, repeated images, halves, text to paste."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from testing.coco_scenes import dataset, scored_scene
from tests.analysis.test_olrp import example, matching_of
from tests.coco.test_intervals import ours, repeated, state_of
from tests.fuzz import seeds
from valor_gpu.analysis import score_rankings
from valor_gpu.analysis.operating_points import chosen_images
from valor_gpu.analysis.points_result import between
from valor_gpu.analysis.rows import Matching
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.result import Result
from valor_gpu.result_data import ResultData
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.draws import Draws

PURPOSES: tuple[dict[str, Any], ...] = (
    {}, {"beta": 2}, {"beta": 0.5}, {"precision": 0.6}, {"recall": 0.4}, {"cost": (1, 3)}, {"cost": (2, 1)},
)  # fmt: skip
Numbers = dict[str, float]


def judged(matching: Matching, label: int | None, images: Any = None) -> list[tuple[float, bool]]:
    """Score and whether it is a true positive of each detection that counts."""
    rows = matching.rows
    return [
        (float(rows.scores[d]), bool(matching.hits[d]))
        for d in range(len(rows.scores))
        if (matching.hits[d] or matching.false_positives[d])
        and label in (None, rows.labels[d])
        and (images is None or images[rows.images[d]])
    ]


def positives_of(matching: Matching, label: int | None, images: Any = None) -> int:
    rows = matching.rows
    return sum(
        bool(rows.gt_counts[g]) and label in (None, rows.gt_labels[g]) and (images is None or images[rows.gt_images[g]])
        for g in range(len(rows.gt_labels))
    )


def numbers_at(found: list[tuple[float, bool]], positives: int, threshold: float, beta: float) -> Numbers:
    kept = [hit for score, hit in found if score >= threshold]
    tp, fp = sum(kept), len(kept) - sum(kept)
    fn, square = positives - tp, beta * beta
    return {
        "score_threshold": threshold,
        "precision": tp / len(kept) if kept else math.nan,
        "recall": tp / positives if positives else math.nan,
        "f": (1 + square) * tp / ((1 + square) * tp + square * fn + fp) if positives else math.nan,
        "tp": tp, "fp": fp, "fn": fn,
    }  # fmt: skip


def chosen_by_loop(found: list[tuple[float, bool]], positives: int, purpose: dict[str, Any]) -> float:
    """The threshold that serves the purpose, NaN where there is none, infinite to keep nothing."""
    if not positives:
        return math.nan
    beta = purpose.get("beta", 1)
    points = [
        numbers_at(found, positives, score, beta) for score in sorted({score for score, _ in found}, reverse=True)
    ]
    if "cost" in purpose:
        wrong, missed = purpose["cost"]
        points = [{"tp": 0, "fp": 0, "fn": positives, "score_threshold": math.inf}, *points]
        return min(points, key=lambda p: wrong * p["fp"] + missed * p["fn"])["score_threshold"]
    if "precision" in purpose:
        points = [p for p in points if p["precision"] >= purpose["precision"]]
        best = max(points, key=lambda p: (p["tp"], p["precision"]), default={"score_threshold": math.nan})
    elif "recall" in purpose:
        points = [p for p in points if p["recall"] >= purpose["recall"]]
        best = max(points, key=lambda p: (p["precision"], p["tp"]), default={"score_threshold": math.nan})
    else:
        best = max(points, key=lambda p: round(p["f"], 12), default={"f": 0.0, "score_threshold": math.inf})
        return best["score_threshold"] if best["f"] else math.inf
    return best["score_threshold"]


def expected_point(found: Any, positives: int, purpose: dict[str, Any], reported: Any = None) -> dict[str, float]:
    """The numbers of a point as a result has them; ``reported``: detections and ground truths of other images."""
    beta, threshold = purpose.get("beta", 1), chosen_by_loop(found, positives, purpose)
    names = ("score_threshold", "precision", "recall", f"f{beta:g}", *(["cost"] if "cost" in purpose else []))
    if math.isnan(threshold):
        return dict.fromkeys(names, math.nan)
    point = numbers_at(*((found, positives) if reported is None else reported), threshold, beta)
    point[f"f{beta:g}"] = point["f"]
    if math.isinf(threshold):
        point["score_threshold"] = math.nan
    if "cost" in purpose:
        point["cost"] = purpose["cost"][0] * point["fp"] + purpose["cost"][1] * point["fn"]
    return {name: point[name] for name in names}


def point_of(result: ResultData, name: str | None) -> dict[str, float]:
    """The numbers of a class, None: of all classes."""
    per_class = {key.removesuffix("_per_class"): value for key, value in result.values.items() if "_per_class" in key}
    return {key: result.values[key] if name is None else value[name] for key, value in per_class.items()}


def assert_points(result: ResultData, matching: Matching, purpose: dict[str, Any]) -> None:
    for label, name in [(None, None), *enumerate(matching.rows.classes)]:
        expected = expected_point(judged(matching, label), positives_of(matching, label), purpose)
        assert point_of(result, name) == pytest.approx(expected, abs=1e-14, nan_ok=True), (name, purpose)
        for key, value in expected.items():
            leaf = key if name is None else f"{key}_per_class/{name}"
            assert math.isnan(value) == (leaf in result.reasons), leaf


@pytest.mark.parametrize("iou", [0.5, 0.85])
@pytest.mark.parametrize("seed", seeds(2))
def test_a_plain_loop_over_all_thresholds(seed: int, iou: float) -> None:
    result = ours(dataset(scored_scene(seed, classes=5))).result()
    matching = matching_of(result, iou)
    for purpose in PURPOSES:
        assert_points(result.operating_points(**purpose, iou=iou), matching, purpose)


def test_the_example_of_coco_and_scikit_learn() -> None:
    result = example("bbox").result()
    matching, points = matching_of(result), result.operating_points()
    assert_points(points, matching, {})
    for label, name in [(None, None), *enumerate(matching.rows.classes)]:
        found, positives = judged(matching, label), positives_of(matching, label)
        point = point_of(points, name)
        if math.isnan(point["score_threshold"]):
            continue
        scores, hits = zip(*found)
        precision, recall, thresholds = precision_recall_curve(hits, scores)
        recall = recall * sum(hits) / positives  # it knows the detected ground truths alone
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
        assert point["f1"] == pytest.approx(f1.max(), abs=1e-14)
        place = thresholds.tolist().index(point["score_threshold"])
        assert (point["precision"], point["recall"]) == pytest.approx((precision[place], recall[place]), abs=1e-14)


def test_classes_pooled_by_the_evaluation() -> None:
    points = ours(dataset(scored_scene(2)), useCats=0).result().operating_points()
    assert point_of(points, None) == point_of(points, "all")


def _one_image() -> Result:
    """Of the cat two ground truths; scores 0.9 hit, 0.8 wrong, 0.7 hit and wrong, 0.1 wrong."""
    box = {"image_id": 1, "area": 100, "iscrowd": 0}
    boxes = [[0, 0, 10, 10], [50, 50, 10, 10], [90, 0, 10, 10]]
    truth = {
        "images": [{"id": 1, "width": 200, "height": 200}],
        "categories": [{"id": n, "name": name} for n, name in enumerate(("cat", "dog", "cow", "ant", "bee"), 1)],
        "annotations": [
            *({"id": n + 1, "category_id": 1, "bbox": boxes[n], **box} for n in range(2)),
            *({"id": n, "category_id": n, "bbox": boxes[0], **box} for n in (3, 4, 5)),
        ],
    }
    scores = [(0, 0.9), (2, 0.8), (1, 0.7), (2, 0.7), (2, 0.1)]
    results = [{"image_id": 1, "category_id": 1, "bbox": boxes[at], "score": score} for at, score in scores]
    results += [{"image_id": 1, "category_id": label, "bbox": boxes[2], "score": 0.6} for label in (2, 3)]
    results += [
        {"image_id": 1, "category_id": 5, "bbox": boxes[at], "score": score} for at, score in ((2, 0.9), (0, 0.8))
    ]
    return ours((truth, results)).result()


def test_one_image_by_hand() -> None:
    result = _one_image()

    def point(name: str = "cat", **purpose: Any) -> list[float]:
        return list(point_of(result.operating_points(**purpose), name).values())

    # F1 is 2/3 at 0.9 and at 0.7; of equal ones the highest threshold is taken.
    assert point() == pytest.approx([0.9, 1, 0.5, 2 / 3])
    assert point(beta=2) == pytest.approx([0.7, 0.5, 1, 5 * 2 / (5 * 2 + 2)])
    assert point(precision=0.5) == pytest.approx([0.7, 0.5, 1, 2 / 3])
    assert point(precision=0.51) == point(recall=0.5) == point()
    assert point(cost=(1, 1)) == pytest.approx([0.9, 1, 0.5, 2 / 3, 1])
    assert point(cost=(1, 2)) == pytest.approx([0.9, 1, 0.5, 2 / 3, 2])  # as 0.7, which keeps more
    assert point(cost=(1, 2.5)) == pytest.approx([0.7, 0.5, 1, 2 / 3, 2])
    assert point("cow") == pytest.approx([math.nan, math.nan, 0, 0], nan_ok=True)
    assert point("cow", cost=(1, 1)) == pytest.approx([math.nan, math.nan, 0, 0, 1], nan_ok=True)
    assert point("bee", cost=(1, 1)) == pytest.approx(
        point("cow", cost=(1, 1)), nan_ok=True
    )  # a false positive costs what it finds
    assert point("bee", cost=(1, 1.5)) == pytest.approx([0.8, 0.5, 1, 2 / 3, 1])
    points = result.operating_points(precision=0.9)
    assert points.reason("precision_per_class/dog") == "no ground truth of the class counts"
    nothing = "no detection of the class is a true positive at this IoU"
    assert points.reason("precision_per_class/cow") == nothing
    assert points.reason("recall_per_class/ant") == nothing
    points = result.operating_points(recall=0.75)
    assert points.reason("recall_per_class/ant") == nothing
    assert points.reason("score_threshold") == "no threshold reaches recall 0.75: the highest recall is 0.6"
    costs = result.operating_points(cost=(9, 1))
    assert costs.reason("score_threshold_per_class/cow") == "to keep no detection costs least"


@pytest.mark.parametrize("purpose", PURPOSES)
def test_replicates_choose_thresholds_in_repeated_images(purpose: dict[str, Any]) -> None:
    scene = scored_scene(4, images=9)
    points = ours(dataset(scene)).result().operating_points(**purpose)
    draws = Draws(9, 5, first=3, seed=4)
    found, weights = state_of(points).replicates(draws), draws.array()
    names = [*next(value for key, value in points.values.items() if "_per_class" in key)]
    for column in range(draws.count):
        theirs = ours(dataset(repeated(scene, weights[:, column]))).result().operating_points(**purpose)
        for name in (None, *names):
            there = name is None or name in theirs.values["precision_per_class"]
            for key, value in (point_of(theirs, name) if there else {}).items():
                leaf = key if name is None else f"{key}_per_class/{name}"
                assert found[leaf][column] == pytest.approx(value, abs=1e-14, nan_ok=True), leaf


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_threshold_of_one_half_and_the_numbers_of_the_other(purpose: dict[str, Any]) -> None:
    result = ours(dataset(scored_scene(3, images=12, classes=3))).result()
    points, matching = result.operating_points(**purpose, split=0.5, seed=7), matching_of(result)
    part = chosen_images(12, 0.5, 7)
    assert part.sum() == points.counts["images_chosen_on"] == points.counts["images_reported"] == 6
    for label, name in [(None, None), *enumerate(matching.rows.classes)]:
        sides = [(judged(matching, label, side), positives_of(matching, label, side)) for side in (part, ~part)]
        expected = expected_point(*sides[0], purpose, sides[1])
        found = point_of(points, name)
        assert found == pytest.approx(expected, abs=1e-14, nan_ok=True)
        for key, value in found.items():
            assert math.isnan(value) == ((key if name is None else f"{key}_per_class/{name}") in points.reasons)
    assert points.signature["split"] == 0.5 and points.signature["seed"] == 7
    ones = state_of(points)._numbers(np.ones((12, 1), np.uint8))
    assert ones["precision"][0] == pytest.approx(points.values["precision"], nan_ok=True)
    assert not (chosen_images(12, 0.5, 8) == part).all() and chosen_images(100, 0.2, 0).sum() == 20


@pytest.mark.parametrize(("largest", "kinds"), [(3, None), (255, None), (255, (np.uint64,))])
def test_sums_of_weights_side_by_side(largest: int, kinds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 bits, of 32, and of 64, which sums of 16 million detections need."""
    if kinds:
        monkeypatch.setattr(score_rankings, "_SUMS", kinds)
    rng = np.random.default_rng(5)
    weights, images = rng.integers(0, largest + 1, (40, 7)).astype(np.uint8), rng.integers(0, 40, 900)
    weights[3] = largest
    ends = np.array([0, 1, 1, 17, 899, 900])
    found = score_rankings.Weights(weights).sums(images, ends)
    assert found.dtype == np.int64
    for lane in range(7):
        assert found[lane].tolist() == [sum(int(weights[i, lane]) for i in images[:end]) for end in ends]


def test_intervals_of_points() -> None:
    points = ours(dataset(scored_scene(1, images=40, classes=2))).result()
    found = points.operating_points(intervals=Bootstrap(100, seed=3))
    interval = found.intervals["f1"]
    assert 0 < interval.low < found.values["f1"] < interval.high < 1
    assert found.lines("yaml") == points.operating_points().with_intervals(50).lines("yaml")
    clusters = Bootstrap(100, clusters=[n // 2 for n in range(40)])
    assert points.operating_points(intervals=clusters).intervals.choices["clusters"] == 20


def test_lines_keep_what_the_threshold_keeps() -> None:
    points = example("bbox").result().operating_points()
    listed = {}
    for line in points.lines("yaml").splitlines():
        if not line.startswith("#"):
            name, number = line.rsplit(": ", 1)
            listed[json.loads(name)] = float(number)
    assert [*listed] == [*points.values["score_threshold_per_class"]]
    rankings = vars(points)["_rankings"]
    for name, threshold in points.values["score_threshold_per_class"].items():
        if not math.isnan(threshold):
            scores = rankings[name].scores
            assert ((scores > listed[name]) == (scores >= threshold)).all()
    common = vars(points)["_pooled"].scores
    pasted = points.lines("detectron2").split("SCORE_THRESH_TEST = ")[1].split()[0]
    assert ((common > float(pasted)) == (common >= points.values["score_threshold"])).all()
    assert f"conf={pasted}" in points.lines("ultralytics")
    for form in ("ultralytics", "detectron2"):
        text = points.lines(form)
        compile(text, form, "exec")
        assert text.count("# ") >= 2 and "'person': " in text
    assert '# "fire hydrant" has the common threshold: no ground truth of the class counts' in points.lines("yaml")
    with pytest.raises(InputError, match="form must be one of 'ultralytics', 'detectron2', 'yaml' but got 'json'"):
        points.lines("json")


def test_filters_of_lines() -> None:
    """The snippets, run on stand-ins for the objects of the programs."""
    points = example("bbox").result().operating_points()
    text = points.lines("ultralytics")

    class Column(list[float]):
        def tolist(self) -> list[float]:
            return list(self)

    class Boxes:
        cls, conf = Column([0.0, 1.0]), Column([0.9999, 0.0])

    class Found:
        names, boxes = {0: "person", 1: "bicycle"}, Boxes()

        def __getitem__(self, kept: list[bool]) -> list[bool]:
            return kept

    class Model:
        def predict(self, source: Any, conf: float) -> list[Found]:
            assert 0 <= conf < 1
            return [Found()]

    scope: dict[str, Any] = {"model": Model(), "source": None}
    exec(text, scope)
    assert scope["results"] == [[True, False]]


@pytest.mark.parametrize(("low", "high", "number"), [
    (0.0, 1.0, 0.9999), (0.31234, 0.31301, 0.313), (0.1, np.nextafter(0.1, 1), 0.1), (-2.0, -1.0, -1.0001),
])  # fmt: skip
def test_numbers_between_scores(low: float, high: float, number: float) -> None:
    assert between(low, high) == number
    assert low <= number < high


def test_a_pickle_and_a_file_hold_the_numbers() -> None:
    points = ours(dataset(scored_scene(1))).result().operating_points()
    again = pickle.loads(pickle.dumps(points))
    assert type(again) is ResultData and again.to_dict()["values"] == points.to_dict()["values"]


def test_pictures() -> None:
    pytest.importorskip("matplotlib").use("agg")
    points = example("bbox").result().operating_points()
    axes = points.plot()
    assert axes.get_title(loc="left").startswith("Precision, recall and F1 of all classes, F1 0.")
    assert "F1 of person" not in axes.get_title(loc="left")
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [text.split()[0] for text in texts] == ["precision", "recall", "f1"]
    assert texts[2] == f"f1 {points.values['f1']:.3f}"
    axes = points.plot(classes=["person", "dog", "fire hydrant"], source="val")
    assert [text.get_text().rsplit(" ", 1)[0] for text in axes.get_legend().get_texts()] == [
        "person",
        "dog",
        "fire hydrant",
    ]
    assert points.plot(label="person").get_title(loc="left").startswith("Precision, recall and F1 of person")
    with pytest.raises(InputError, match="label and classes must be of the 80 classes of the result but got 'cats'"):
        points.plot(label="cats")


BAD: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    (
        {"beta": 1, "recall": 0.5},
        InputError,
        "one of beta, precision, recall and cost must be given, .* beta and recall",
    ),
    ({"beta": 0}, InputError, "beta must be above 0 but got 0"),
    ({"precision": 1.5}, InputError, r"precision must be in \[0, 1\] but got 1.5"),
    ({"recall": 0}, InputError, "recall must be above 0 and at most 1 but got 0"),
    ({"cost": 3}, InputTypeError, "cost must be a pair, of a false positive and of a missed ground truth, but got 3"),
    ({"cost": (0, 0)}, InputError, "cost must be two finite numbers of which one is above 0 but got"),
    ({"cost": (-1, 1)}, InputError, "cost must be in"),
    ({"split": 1}, InputError, "split must be above 0 and below 1 but got 1"),
    ({"split": 0.001}, InputError, "split must leave images on both sides but 0.001 of 6 images are 0"),
    ({"split": 0.5, "seed": -1}, InputError, "seed must be at least 0 but got -1"),
    ({"iou": 2}, InputError, "iou must be"),
)


@pytest.mark.parametrize(("choices", "error", "message"), BAD)
def test_bad_choices(choices: dict[str, Any], error: type[Exception], message: str) -> None:
    result = ours(dataset(scored_scene(0))).result()
    with pytest.raises(error, match=message):
        result.operating_points(**choices)


def test_the_text_has_a_line_per_class_with_a_threshold() -> None:
    points = _one_image().operating_points(recall=0.75)
    lines = str(points).splitlines()
    assert lines[0].split() == ["class", "score_threshold", "precision", "recall", "f1"]
    assert lines[1].split() == ["all", "together", "nan", "nan", "nan", "nan"]
    assert lines[2].split() == ["cat", "0.7000", "0.5000", "1.0000", "0.6667"]
    assert [line.split()[0] for line in lines[3:]] == ["bee", "all", "images", str(points.signature).split()[0]]
    assert lines[4] == "all together: no threshold reaches recall 0.75: the highest recall is 0.6"
