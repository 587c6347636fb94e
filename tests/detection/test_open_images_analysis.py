"""What results of OpenImagesAveragePrecision answer about outcomes, against the plain definition."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from tests.detection import open_images_reference as plain
from tests.detection.test_open_images import PARENTS, evaluated, random_images
from tests.fuzz import seeds
from valor_gpu.detection import OpenImagesAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of

IOUS = (0.5, 0.25)


def analysis_of(metric):
    return metric.result()._asked("images", None)


@pytest.mark.parametrize("weight", [0, 1])
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("seed", seeds(4))
def test_outcomes_give_the_precision_of_the_plain_definition(seed, expand, weight):
    preds, target = random_images(seed)
    choices = {"iou_thresholds": IOUS, "group_weight": weight, "expand_detections": expand}
    metric = evaluated(preds, target, PARENTS, **choices)
    answer, analysis = plain.evaluate(preds, target, PARENTS, IOUS, weight, expand), analysis_of(metric)
    rows = analysis.rows
    assert list(rows.image_ids) == list(range(len(preds))) and rows.kept.all()
    for iou in IOUS:
        matching = analysis.matching(iou)
        assert not (matching.hits & matching.false_positives).any()
        ignored = ~matching.hits & ~matching.false_positives
        assert int(ignored.sum()) == answer.ignored[iou]
        for label, name in enumerate(rows.classes):
            of_class = np.flatnonzero(rows.labels == label)
            order = of_class[np.argsort(-rows.scores[of_class], kind="stable")]
            verdicts = [
                "ignored" if ignored[row] else "true" if matching.hits[row] else "false" for row in order.tolist()
            ]
            positives = int(matching.positives[label])
            assert (positives > 0) == ((iou, int(name)) in answer.precision)
            if positives:
                got = plain.area_under_curve(verdicts, positives)
                assert got == pytest.approx(answer.precision[iou, int(name)], abs=1e-14)
        assert matching.partners is None and matching.found is None


def test_images_arrive_in_any_order_and_copies_count_once():
    preds, target = random_images(2)
    straight = analysis_of(evaluated(preds, target, PARENTS))
    turned = analysis_of(evaluated([*preds[::-1], preds[3]], [*target[::-1], target[3]], PARENTS))
    assert list(straight.image_ids) == list(turned.image_ids)
    assert np.array_equal(straight.rows.lengths, turned.rows.lengths)
    assert np.array_equal(straight.matching().hits, turned.matching().hits)


def exact(numbers):
    return {name: float(value).hex() for name, value in numbers.items()}


def document(result):
    return {name: part for name, part in result.to_dict().items() if name != "provenance"}


CHOICES = [{}, {"iou_thresholds": IOUS, "expand_detections": True}, {"group_weight": 0}]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("with_ids", [True, False, None], ids=["ids", "no ids", "some ids"])
@pytest.mark.parametrize("seed", seeds(3))
def test_slices_have_the_bits_of_fresh_metrics(seed, with_ids, choices):
    preds, target = random_images(seed, images=20)
    kinds = np.random.default_rng(seed).choice(["rain", "sun", "fog"], 20).tolist()
    target = [
        each if with_ids or (with_ids is None and place % 2) else {k: v for k, v in each.items() if k != "image_id"}
        for place, each in enumerate(target)
    ]
    order = np.random.default_rng(seed + 1).permutation(20).tolist()

    def result_of(places):
        metric = OpenImagesAveragePrecision(PARENTS, **choices)
        for place in places:  # all images of a batch have ids, or none has
            metric.update([preds[place]], [target[place]])
        return metric.result()

    names = [target[place]["image_id"] if with_ids else arrived for arrived, place in enumerate(order)]
    table = {"image_id": names, "weather": [kinds[place] for place in order]}
    result = result_of(order)
    wanted = [name for name, _ in numbers_of(result.values)]
    found = result.by(table, "weather", numbers=wanted)
    assert len(found.rows()) == 3 and sum(found["images"]) == 20
    for row in found.rows():
        of_slice = [place for place in order if kinds[place] == row["value"]]
        expected = dict(numbers_of(result_of(of_slice).values))
        assert exact({name: row[name] for name in expected}) == exact(expected)
        assert all(np.isnan(row[name]) for name in wanted if name not in expected)


def test_the_result_of_images_is_that_of_a_fresh_metric_intervals_and_counts_included():
    preds, target = random_images(4, images=16)
    again = [*range(16), 3, 5]  # copies with the same detections
    metric = evaluated(
        [preds[place] for place in again], [target[place] for place in again], PARENTS, iou_thresholds=IOUS
    )
    part = np.array([1, 3, 5, 8, 13])
    got = analysis_of(metric).result_of(part)
    fresh = evaluated([preds[p] for p in part], [target[p] for p in part], PARENTS, iou_thresholds=IOUS).result()
    assert document(got) == document(fresh) and got.counts["images"] == 5
    assert repr(got.with_intervals(30).intervals) == repr(fresh.with_intervals(30).intervals)
    empty = analysis_of(metric).result_of(np.zeros(0, np.int64))
    nothing = OpenImagesAveragePrecision(PARENTS, iou_thresholds=IOUS).result()
    assert repr(document(empty)) == repr(document(nothing)) and empty.counts["images"] == 0


def test_of_copies_with_other_detections_the_one_that_counts_is_sliced():
    preds, target = random_images(6, images=8)
    other = preds[4] | {"scores": torch.full_like(preds[4]["scores"], 0.05)}
    metric = evaluated([*preds, other], [*target, target[4]], PARENTS)
    with pytest.warns(UserWarning, match="1 images were left out"):
        result = metric.result()
    table = {"image_id": list(range(8)), "part": ["a"] * 4 + ["b"] * 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = result.by(table, "part").rows()
        whole = result.by({"image_id": list(range(8)), "part": ["a"] * 8}, "part").rows()[0]
    assert [row["images"] for row in rows] == [4, 4] and float(whole["map"]).hex() == float(result.values["map"]).hex()


def test_worst_slices_finds_the_images_with_wrong_boxes():
    _, target = random_images(5, images=80, verified=False)
    night = [place % 2 == 0 for place in range(80)]
    found = [
        {
            "boxes": true["boxes"] + 500 * dark,
            "scores": torch.linspace(0.1, 0.9, len(true["boxes"])),
            "labels": true["labels"],
        }
        for true, dark in zip(target, night)
    ]
    metric = evaluated(found, target)
    table = {"image_id": list(range(80)), "night": night}
    row = metric.result().worst_slices(table, "night", least=10).rows()[0]
    assert (row["value"], row["confirmed"]) == ("True", True)


def test_what_has_no_answer():
    metric = evaluated(*random_images(1), PARENTS)
    for name in ("errors", "olrp", "matches"):
        with pytest.raises(InputError, match=rf"{name}\(\) is not defined for results of OpenImagesAveragePrecision"):
            getattr(metric.result(), name)()
    with pytest.raises(InputError, match="a question about pairs is not defined for results of OpenImagesAverageP"):
        assert analysis_of(metric).pairs
    with pytest.raises(InputError, match=r"iou must be one of iou_thresholds of the metric, \[0.5\], but got 0.75"):
        analysis_of(metric).matching(0.75)
    assert len(analysis_of(OpenImagesAveragePrecision()).matching().hits) == 0
