"""The table of how often intervals hold: a slice of it again, its numbers, and the defaults that follow from it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import coverage, coverage_native
from benchmarks.coverage_methods import CANDIDATES, Sample, ends
from benchmarks.coverage_pools import pool
from testing.datasets import CASES, make
from valor_gpu.classification import AUROC, AveragePrecision
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.stats import methods

SLICE = Path(__file__).with_name("coverage_slice.json")
SLICED = ("5 classes", "label maps", "levels 1 to 5", "texts")
COMPILER = pytest.mark.skipif(not coverage_native.available(), reason="g++ is not installed")


def sliced(case: str) -> dict[str, dict[str, list[int]]]:
    """Counts of ten data sets: intervals, and of both targets how many hold it and how many lie above it."""
    expected = pool(case).estimates(np.random.default_rng(0), 100, 100).mean(1)
    rows = coverage.block_of(case, 100, 0, expected, sets=10, replicates=200)
    return {
        row["number"]: {m: [int(count) for count in tally[:5]] for m, tally in row["counts"].items()} for row in rows
    }


@pytest.mark.parametrize("case", SLICED)
def test_a_slice_counts_as_it_did(case: str) -> None:
    assert sliced(case) == json.loads(SLICE.read_text())[case]


@COMPILER
def test_the_numbers_of_weighted_images_are_those_of_adjacent_copies() -> None:
    from benchmarks.coverage_detection import records_of

    data = make(CASES["val2017"], 60, 5)
    weights = np.random.default_rng(1).integers(0, 4, (60, 3)).astype(np.uint8)
    records = records_of(data, np.ones(len(data.dt_score), bool))
    precision, recall = coverage_native.class_numbers(records, weights)
    for lane, column in enumerate(weights.T):
        metric = MeanAveragePrecision(box_format="xywh", class_metrics=True)
        for image in np.repeat(np.arange(60), column):
            dt, gt = data.dt_image == image, data.gt_image == image
            detections = {"boxes": data.dt_box[dt], "scores": data.dt_score[dt], "labels": data.dt_category[dt]}
            truths = {"boxes": data.gt_box[gt], "labels": data.gt_category[gt], "iscrowd": data.gt_crowd[gt]}
            truths["area"] = data.gt_area[gt]
            metric.update(*([{k: torch.from_numpy(v) for k, v in side.items()}] for side in (detections, truths)))
        found = metric.compute()
        # Scores of 3 decimals tie, and copies of tied images stand in another order.
        assert float(found["map"]) == pytest.approx(np.nanmean(precision[:, lane]), abs=2e-3)
        assert float(found["mar_100"]) == pytest.approx(np.nanmean(recall[:, lane]), abs=1e-6)


@COMPILER
def test_the_numbers_of_weighted_scores_are_those_of_copies() -> None:
    rng = np.random.default_rng(3)
    positive, scores = rng.random(50) < 0.4, rng.random(50)
    weights = rng.integers(0, 4, (50, 2)).astype(np.uint8)
    order = np.argsort(-scores)
    found = coverage_native.curve_numbers(order, positive[order], weights)
    for lane, column in enumerate(weights.T):
        rows = np.repeat(np.arange(50), column)
        given = torch.from_numpy(scores[rows]), torch.from_numpy(positive[rows].astype(np.int64))
        for numbers, metric in zip(found, (AUROC(task="binary"), AveragePrecision(task="binary"))):
            metric.update(*given)
            assert float(metric.compute()) == pytest.approx(numbers[lane], abs=1e-6)


def sample(estimate: float = 0.7) -> Sample:
    rng = np.random.default_rng(0)
    values, half, quarter, deleted, nested = (estimate + 0.03 * rng.normal(size=n) for n in (999, 999, 99, 50, 99))
    return Sample(100, estimate, values, half, quarter, deleted, nested)


@pytest.mark.parametrize("method", [m for m in (*methods.METHODS, *CANDIDATES) if m != "studentized"])
def test_every_method_gives_an_interval_about_the_number(method: str) -> None:
    low, high = ends(method, sample())
    assert 0.4 < low < high < 1 and 0.05 < high - low < 0.25


def test_nothing_that_varies_gives_no_interval() -> None:
    assert np.isnan(ends("half_root", sample()._replace(values=np.full(99, 0.7)))).all()


def main() -> None:
    """Writes the slice."""
    SLICE.write_text(json.dumps({case: sliced(case) for case in SLICED}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
