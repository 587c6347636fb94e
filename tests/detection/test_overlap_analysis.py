"""Rows, pairs and matching behind results of Valor's detection metrics, against the rules in plain Python."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.coco.comparison import same
from tests.detection import overlap_reference as reference
from tests.detection.test_valor_metrics import FAMILY, random_images
from tests.fuzz import seeds
from valor_gpu.detection import AP, AR, DetectionConfusionMatrix, mAP, mAPAveragedOverIOUs
from valor_gpu.errors import InputError


def filled(kind, batch, **options):
    metric = kind(**options)
    metric.update(*batch)
    return metric


def analysis_of(metric):
    return metric.result()._asked("errors", None)


@pytest.mark.parametrize("seed", seeds(8))
def test_outcomes_are_those_of_the_rules(seed):
    batch = random_images(seed)
    datums, analysis = reference.datums_of(*batch), analysis_of(filled(AP, batch))
    rows, pairs = analysis.rows, analysis.pairs
    firsts = rows.lengths.cumsum(1) - rows.lengths
    for iou in (0.2, 0.5, 0.75, 1.0):
        expected = {
            int(firsts[0, image]) + row: int(firsts[1, image]) + gt
            for (image, row), (_, gt) in reference.true_positives(datums, iou).items()
        }
        matching = analysis.matching(iou)
        assert dict(zip(np.flatnonzero(matching.hits).tolist(), matching.partners[matching.hits].tolist())) == expected
        assert np.flatnonzero(matching.found).tolist() == sorted(set(expected.values()))
        assert (matching.false_positives == ~matching.hits).all() and np.isnan(matching.ious[~matching.hits]).all()
    got = {key: iou for *key, iou in zip(pairs.detections.tolist(), pairs.ground_truths.tolist(), pairs.ious.tolist())
           for key in [tuple(key)]}  # fmt: skip
    wanted = {
        (int(firsts[0, image]) + row, int(firsts[1, image]) + gt): iou
        for image, datum in enumerate(datums) for row, found in enumerate(datum.detections)
        for gt, iou in enumerate(found.ious) if iou > 0
    }  # fmt: skip
    assert got == pytest.approx(wanted)
    assert list(rows.classes) == [str(label) for label in reference.labels_of(datums)]


def test_precision_at_hits_is_that_of_the_metric():
    """AP of the hits by score, without ties of scores, is the AP of the result: what errors would cost starts there."""
    preds, target = random_images(3)
    for number, image in enumerate(preds):
        image["scores"] = torch.linspace(0.1, 0.9, len(image["scores"])).double() + number / 1000
    result = filled(AP, (preds, target)).result()
    matching = result._asked("errors", None).matching(0.5)
    rows = matching.rows
    for label, name in enumerate(rows.classes):
        order = np.flatnonzero(rows.labels == label)
        order = order[np.argsort(-rows.scores[order])]
        hits, positives = matching.hits[order].cumsum(), matching.positives[label]
        precision = hits / np.arange(1, len(order) + 1)
        points = [max([p for p, h in zip(precision, hits) if h >= r * positives - 1e-12], default=0.0)
                  for r in np.linspace(0, 1, 101)]  # fmt: skip
        expected = np.mean(points) if positives else np.nan
        assert result.values["ap_50"][name] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("kind", FAMILY)
def test_every_metric_of_the_family_answers(kind):
    assert analysis_of(filled(kind, random_images(1))).matching().hits.any()


def test_the_metrics_own_rule_of_matching():
    differ = []
    for seed in range(8):
        batch, rules = random_images(seed), ("valor", "doc")
        hits = [analysis_of(filled(mAP, batch, matching=rule)).matching(0.5).hits for rule in rules]
        differ.append((hits[0] != hits[1]).any())
    assert any(differ)


def test_images_of_one_id_count_once_and_their_ids_name_them():
    preds, target = random_images(2, images=4)
    for number, image in enumerate(target):
        image["image_id"] = 70 - number
    analysis = analysis_of(filled(AP, ([*preds, preds[1]], [*target, target[1]])))
    assert list(analysis.image_ids) == [70, 69, 68, 67] == list(analysis.rows.image_ids)


@pytest.mark.parametrize("kind", [AP, mAP, AR, mAPAveragedOverIOUs, DetectionConfusionMatrix])
def test_results_of_some_images_are_those_of_a_fresh_metric(kind):
    preds, target = random_images(4)
    for number, image in enumerate(target):
        image["image_id"] = number + 5
    metric = filled(kind, (preds, target))
    result, chosen = metric.result(), np.array([0, 3, 4, 9])
    expected = filled(kind, ([preds[i] for i in chosen], [target[i] for i in chosen])).result()
    got = result._asked("by", None).result_of(chosen)
    same(json.loads(expected.to_json()), json.loads(got.to_json()))
    assert metric.result().to_json() == result.to_json()  # the metric has not changed


def test_updates_after_the_result_do_not_reach_it():
    metric = filled(AP, random_images(1))
    result = metric.result()
    metric.update(*random_images(2))
    metric.reset()
    expected = analysis_of(filled(AP, random_images(1)))
    assert np.array_equal(result._asked("errors", None).matching().hits, expected.matching().hits)


def test_nothing_at_all():
    analysis = analysis_of(AP())
    assert analysis.images == 0 and len(analysis.matching().hits) == 0 and len(analysis.pairs.ious) == 0


@pytest.mark.parametrize("iou", [0.0, 1.5])
def test_iou_out_of_range(iou):
    with pytest.raises(InputError, match=f"iou must .* but got {iou}"):
        analysis_of(filled(AP, random_images(1))).matching(iou)
