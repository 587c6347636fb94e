"""Pictures of Valor's detection metrics: what they say, any data, no warnings."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.figure import Figure

from tests.detection.test_valor_metrics import FAMILY, Batch, random_images, updated
from valor_gpu.detection import (
    AR,
    DetectionConfusionMatrix,
    DetectionCounts,
    DetectionExamples,
    DetectionPrecision,
    DetectionPrecisionRecallCurve,
    mAP,
)
from valor_gpu.errors import InputError

DRAWN = [kind for kind in FAMILY if kind is not DetectionExamples]


def drawn(metric: Any, **options: Any) -> Any:
    """The axes of the result of a metric, drawn."""
    figure = Figure(layout="constrained")
    axes = metric.result().plot(ax=figure.subplots(), resize=True, **options)
    figure.canvas.draw()
    return axes


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("batch", [([], []), random_images(0)], ids=["nothing", "some"])
def test_every_metric_but_examples_has_a_picture(kind: Any, batch: Batch) -> None:
    axes = drawn(updated(kind(), batch), source="validation $set$")
    assert len(axes.get_title(loc="left")) > 5
    figure, same = updated(kind(), batch).plot(ax=Figure().subplots())
    assert same.figure is figure
    with pytest.raises(InputError, match="val must be left out"):
        kind().plot(3)


def test_titles_have_the_number() -> None:
    batch = random_images(0)
    metric = updated(mAP(), batch)
    mean = sum(float(value) for value in metric.compute().values()) / 2
    assert drawn(metric).get_title(loc="left") == f"Box AP {mean:.3f}"
    recall = updated(AR(), batch)
    title = f"Average recall of each label, mean {float(recall.compute()['ar'].nanmean()):.3f}"
    assert drawn(recall).get_title(loc="left") == title
    assert "best F1" in drawn(updated(DetectionPrecisionRecallCurve(), batch)).get_title(loc="left")


def test_bars_are_sorted_and_named() -> None:
    batch = random_images(0)
    metric = updated(DetectionPrecision(iou_thresholds=[0.2], score_thresholds=[0.0]), batch)
    axes = drawn(metric, names={2: "cat"})
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(widths) and len(widths) == 3
    assert "cat" in [label.get_text() for label in axes.get_yticklabels()]
    counts = drawn(updated(DetectionCounts(), batch), score=0, iou=1)
    assert [text.get_text() for text in counts.get_legend().get_texts()] == ["tp", "fp", "fn"]


def test_thresholds_and_labels_that_are_not_there_are_named() -> None:
    batch = random_images(0)
    with pytest.raises(InputError, match="iou must be the index of one of 2 thresholds but got 2"):
        drawn(updated(DetectionCounts(), batch), iou=2)
    with pytest.raises(InputError, match="score must be the index of one of 1 thresholds but got -1"):
        drawn(updated(DetectionConfusionMatrix(), batch), score=-1)
    with pytest.raises(InputError, match="label must be one of the 4 labels of the result but got 9"):
        drawn(updated(DetectionPrecisionRecallCurve(), batch), label=9)
    assert "label 7" in drawn(updated(DetectionPrecisionRecallCurve(), batch), label=7).texts[-1].get_text()


def test_examples_have_no_picture() -> None:
    with pytest.raises(InputError, match="DetectionExamples lists rows: DetectionConfusionMatrix counts them"):
        DetectionExamples().plot()
