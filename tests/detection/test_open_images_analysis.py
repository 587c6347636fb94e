"""What results of OpenImagesAveragePrecision answer about outcomes, against the plain definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detection import open_images_reference as plain
from tests.detection.test_open_images import PARENTS, evaluated, random_images
from tests.fuzz import seeds
from valor_gpu.detection import OpenImagesAveragePrecision
from valor_gpu.errors import InputError

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
