"""Datasets with masks are seeded and hold what they say; engines of masks agree before they get a number."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import mask_baselines, mask_cases, masks, report
from benchmarks.baselines import Clock
from benchmarks.mask_baselines import SUM, TOOLS
from benchmarks.summary import summary
from benchmarks.verify import RULES, verdict
from testing import keypoint_datasets, mask_datasets
from valor_gpu.ops.runs import cpu as _runs_cpu

VAL = mask_datasets.MASK_CASES["val2017"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> mask_datasets.MaskFiles:
    return mask_datasets.cached(VAL, 6, folder=tmp_path_factory.mktemp("bench_data"))


def test_datasets_are_seeded_and_masks_lie_in_their_boxes() -> None:
    made, again, other = (mask_datasets.make_masks(VAL, 20, seed) for seed in (0, 0, 1))
    assert np.array_equal(made.dt_runs.counts, again.dt_runs.counts)
    assert len(made.dt_runs.counts) != len(other.dt_runs.counts)
    for runs, box in ((made.gt_runs, made.boxes.gt_box), (made.dt_runs, made.boxes.dt_box)):
        found = _runs_cpu.boxes(runs)
        drawn = found[:, 2] > 0
        assert len(runs) == len(box) and drawn.mean() > 0.98
        corners = np.abs(found[:, :2] - box[:, :2]) / (box[:, 2:] + 4)
        assert np.median(corners[drawn]) < 0.1


def test_files_hold_polygons_crowds_and_strings(files: mask_datasets.MaskFiles) -> None:
    made = mask_datasets.make_masks(VAL, 6)
    truth, found = json.loads(files.gt.read_text()), json.loads(files.dt.read_text())
    for row, crowd in zip(truth["annotations"], made.boxes.gt_crowd):
        assert isinstance(row["segmentation"], dict if crowd else list)
    text = np.frombuffer("".join(row["segmentation"]["counts"] for row in found).encode(), np.uint8)
    ends = np.cumsum([0, *(len(row["segmentation"]["counts"]) for row in found)])
    assert np.array_equal(_runs_cpu.decode_strings(text, ends, made.dt_runs.sizes).counts, made.dt_runs.counts)


@pytest.mark.parametrize("work", TOOLS)
def test_engines_agree_with_the_reference(
    work: str, files: mask_datasets.MaskFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are installed here; benchmarks install the others."""
    monkeypatch.setattr(mask_baselines, "DENSE_ROUNDS", 1)
    if work == "keypoints files":
        files = keypoint_datasets.cached(12, folder=files.gt.parent)
    outcomes: dict[str, Any] = {}
    for tool in TOOLS[work]:
        with contextlib.suppress(ImportError), contextlib.redirect_stdout(io.StringIO()):
            outcomes[tool.name] = tool.start()(files)(Clock())()
    expected, ours = outcomes["pycocotools"], outcomes["valor_gpu"]
    for tool in TOOLS[work]:
        if tool.name in outcomes:
            assert verdict(RULES[tool.rule], outcomes[tool.name], expected, ours).agrees, tool.name


def test_the_page_shows_every_engine_and_the_floor_is_no_peer() -> None:
    def row(case: str, work: str, tool: str, seconds: float) -> dict[str, Any]:
        spread = {"median": seconds}
        return {
            "case": case, "path": work, "images": 500, "tool": tool, "status": "ok", "seconds": spread, "peak_mb": None
        }  # fmt: skip

    rows = [row("dense", "dense masks", tool, s) for tool, s in (("valor_gpu", 2.0), (SUM, 1.0), ("pycocotools", 8.0))]
    result = {
        "kind": "masks", "rows": rows, "versions": {}, "machine": {"processor": "", "python": ""}, "repeats": 1,
        "slow_repeats": 1, "threads": 2, "commit": "", "date": "",
    }  # fmt: skip
    assert f"| {SUM} | 1 s (0.5x) |" in report.masks_text([result])
    assert "| **2 s** | pycocotools 4.0x | pycocotools 4.0x |" in summary({"masks": [result]})


@pytest.mark.slow
def test_a_run_measures_every_engine_that_is_there(tmp_path: Path) -> None:
    arguments = argparse.Namespace(
        case="mask-iou", quick=True, data=tmp_path, threads=1, repeats=1, slow_repeats=1, seed=0
    )
    case = mask_cases.CASES["mask-iou"]
    result = masks.benchmark(arguments)
    status = {row["tool"]: row["status"] for row in result["rows"]}
    assert status["valor_gpu"] == status["pycocotools"] == "ok", result["rows"]
    assert {row["images"] for row in result["rows"]} == {case.quick}
