"""Data of the benchmark of segmentation are seeded; engines agree with the reference before they get a number."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import report, segmentation, segmentation_baselines, segmentation_objects
from benchmarks.baselines import Clock
from benchmarks.segmentation_cases import CASES, cached
from benchmarks.segmentation_objects import TOOLS
from benchmarks.summary import summary
from benchmarks.verify import RULES, verdict
from testing import segmentation_datasets as made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench_data")


@pytest.mark.parametrize("kind", made.MAKERS)
def test_data_are_seeded_and_mostly_right(kind: str) -> None:
    first, again, other = (made.MAKERS[kind]((192, 288), 12, 2, seed) for seed in (3, 3, 4))
    for a, b, c in zip(first, again, other):
        assert np.array_equal(a, b) and not np.array_equal(a, c)
    truth, preds = first
    kept = truth != made.IGNORED
    right = (truth == preds).all(-1) if kind == "panoptic" else (truth == preds)[kept]
    assert 0.6 < right.mean() < 0.99


def test_maps_come_again_where_images_are_more(folder: Path) -> None:
    files = made.cached_maps("blobs", (32, 32), 4, 23, 1, folder, dtype="int64")
    pairs = segmentation_baselines.pairs_of(files)
    assert len(pairs) == 23 and pairs[0][0].dtype == np.int64 and pairs[3][0] is not pairs[13][0]
    assert np.array_equal(pairs[3][0], pairs[13][0]) and not np.array_equal(pairs[3][0], pairs[4][0])
    for truth, _ in pairs[:10]:
        assert set(np.unique(truth)) == set(range(4))


@pytest.mark.parametrize("name", CASES)
def test_engines_agree_with_the_reference(name: str, folder: Path) -> None:
    """Those that are installed here; benchmarks install the others."""
    case = CASES[name]
    files = cached(name, 2, 0, folder)
    outcomes: dict[str, Any] = {}
    for tool in TOOLS[case.path]:
        with contextlib.suppress(ImportError), contextlib.redirect_stdout(io.StringIO()):
            outcomes[tool.name] = tool.start()(files)(Clock())()
    reference = TOOLS[case.path][-1].name
    assert {"valor_gpu", reference} <= outcomes.keys()
    for tool in TOOLS[case.path]:
        if tool.name in outcomes:
            judged = verdict(RULES[tool.rule], outcomes[tool.name], outcomes[reference], outcomes["valor_gpu"])
            assert judged.agrees, (tool.name, judged.text)


def test_another_count_is_a_mismatch() -> None:
    counts = np.array([[5, 3], [6, 4], [6, 4]])
    reference = segmentation_baselines.iou_outcome(counts)
    wrong = segmentation_baselines.iou_outcome(counts + np.array([[0, 0], [1, 0], [1, 0]]))
    assert reference.stats[0] == pytest.approx((5 / 7 + 3 / 5) / 2)
    assert not verdict(RULES["counts"], wrong, reference, None).agrees
    assert not verdict(RULES["counts"], reference._replace(digest=""), reference, None).agrees


def test_quality_of_the_plain_loop_by_hand() -> None:
    """One segment of 4 pixels found with 3 of them (IoU 3/4), one missed, one made up."""
    truth = np.array([1] * 4 + [segmentation_objects.SEGMENTS + 2] * 2 + [2 * segmentation_objects.SEGMENTS] * 2)
    preds = np.array([9] * 3 + [2 * segmentation_objects.SEGMENTS] * 2 + [5] + [2 * segmentation_objects.SEGMENTS] * 2)
    totals = np.zeros((3, 4))
    segmentation_objects._add_segments(totals, truth, preds)
    assert totals.tolist() == [[0.75, 1, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1]]


def test_the_page_has_a_table_for_each_work() -> None:
    def row(case: str, tool: str, seconds: float) -> dict[str, Any]:
        own = {"case": case, "path": CASES[case].path, "images": 20, "tool": tool, "status": "ok", "peak_mb": None}
        return {**own, "seconds": {"median": seconds}}

    rows = [row("maps-19", "valor_gpu", 2.0), row("maps-19", segmentation_baselines.OURS_TORCH, 1.0)]
    rows += [row("maps-19", "hotcoco", 6.0), row("maps-19", "scikit-learn", 80.0), row("folder", "valor_gpu", 3.0)]
    result = {
        "kind": "segmentation", "rows": rows, "versions": {}, "machine": {"processor": "", "python": ""}, "repeats": 1,
        "slow_repeats": 1, "threads": 2, "commit": "", "date": "",
    }  # fmt: skip
    text = report.segmentation_text([result])
    assert "| IoU of label maps | 20 x 1024 x 2048, 19 classes |" in text and "| hotcoco | 6 s (3.0x) |" in text
    assert "folders of PNG files" in text and "logits |" not in text
    assert "| **2 s** | hotcoco 3.0x | scikit-learn 40x |" in summary({"segmentation": [result]})


@pytest.mark.slow
def test_a_run_measures_every_engine_that_is_there(tmp_path: Path) -> None:
    arguments = argparse.Namespace(
        case="maps-64", quick=True, data=tmp_path, threads=1, repeats=1, slow_repeats=1, seed=0
    )
    result = segmentation.benchmark(arguments)
    status = {row["tool"]: row["status"] for row in result["rows"]}
    assert status["valor_gpu"] == status["scikit-learn"] == "ok", result["rows"]
    missing = {name for name in ("hotcoco", "vernier") if not importlib.util.find_spec(name)}
    assert {name for name in status if status[name] == "missing"} <= {*missing, "valor-lite"}
