"""Numbers that valor-lite gave for the cases of its tests, boxes with one label each; see tests/data/NOTICE.md."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.detection.test_valor_metrics import Batch, updated
from valor_gpu.detection import (
    AP,
    AR,
    DetectionCounts,
    DetectionF1,
    DetectionPrecision,
    DetectionRecall,
    mAP,
    mAR,
)

FILE = Path(__file__).parent.parent / "data/valor/detection_lite_tests.json.gz"
DATA = json.loads(gzip.decompress(FILE.read_bytes()))


def rows_of(datum: dict[str, Any]) -> list[dict[str, Any]]:
    return [*datum["groundtruths"], *datum["predictions"]]


def datums_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [datum for loaded in DATA["datasets"][case["dataset"]] for datum in loaded["datums"]]


def fits(case: dict[str, Any]) -> bool:
    """Whether bare metrics take the case: no filter, boxes alone, one label each."""
    every = [annotation for datum in datums_of(case) for annotation in rows_of(datum)]
    plain = case["filter"] is None and case["params"].get("datums") is None
    return plain and all("bbox" in a and len(a["labels"]) == 1 for a in every)


CASES = [case for case in DATA["cases"] if case["method"] == "compute_precision_recall" and fits(case)]


def batch_of(case: dict[str, Any]) -> tuple[Batch, list[str]]:
    """The images, and the names of their labels by number."""
    datums = datums_of(case)
    names = sorted({a["labels"][0] for datum in datums for a in rows_of(datum)})

    def side(rows: list[dict[str, Any]]) -> dict[str, Any]:
        boxes = [[a["bbox"][key] for key in ("xmin", "ymin", "xmax", "ymax")] for a in rows]
        labels = [names.index(a["labels"][0]) for a in rows]
        return dict(boxes=torch.tensor(boxes).double().reshape(-1, 4), labels=torch.tensor(labels, dtype=torch.int64))

    preds = [
        dict(
            side(d["predictions"]), scores=torch.tensor([a["scores"][0] for a in d["predictions"]], dtype=torch.float64)
        )
        for d in datums
    ]
    return (preds, [side(d["groundtruths"]) for d in datums]), names  # fmt: skip


def found(metric: Any, batch: Batch, key: str) -> Any:
    return np.nan_to_num(np.atleast_1d(updated(metric, batch).compute()[key].numpy()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["test"].rpartition("::")[2])
def test_numbers_of_valor_lite(case: dict[str, Any]) -> None:
    batch, names = batch_of(case)
    grid = {key: case["params"][key] for key in ("iou_thresholds", "score_thresholds")}
    shape = (len(names), len(grid["iou_thresholds"]), len(grid["score_thresholds"]))
    tables = {"Precision": DetectionPrecision, "Recall": DetectionRecall, "F1": DetectionF1}
    values = {name: found(kind(**grid), batch, name.lower()).reshape(shape) for name, kind in tables.items()}
    counts = {key: found(DetectionCounts(**grid), batch, key).reshape(shape) for key in ("tp", "fp", "fn")}
    everything: dict[str, Any] = dict(include_prediction_only_labels=True)
    precision = {name: updated(kind(iou_thresholds=grid["iou_thresholds"], **options), batch).compute()
                 for name, kind, options in (("AP", AP, {}), ("mAP", mAP, everything))}  # fmt: skip
    checked = 0
    for name, metrics in case["expected"].items():
        for metric in metrics:
            chosen = metric["parameters"]
            label = names.index(chosen["label"]) if "label" in chosen else 0
            exact = 1e-12
            if name in ("Counts", *tables):
                place = (grid["iou_thresholds"].index(chosen["iou_threshold"]),
                         grid["score_thresholds"].index(chosen["score_threshold"]))  # fmt: skip
                ours: Any = {key: int(table[label][place]) for key, table in counts.items()}
                ours = ours if name == "Counts" else float(values[name][label][place])
            elif name in precision:
                exact = 1e-5  # valor-lite rounds recalls down to the grid after an inexact product
                column = precision[name][f"{name.lower()}_{100 * chosen['iou_threshold']:g}"]
                ours = float(column.nan_to_num().reshape(-1)[label])
            elif name in ("AR", "mAR"):
                options = {
                    "recall_score_threshold": chosen["score_threshold"],
                    "iou_thresholds": chosen["iou_thresholds"],
                }
                recall: Any = AR(**options) if name == "AR" else mAR(**options, **everything)
                ours = found(recall, batch, name.lower())[label]
            else:
                continue
            assert ours == pytest.approx(metric["value"], abs=exact, rel=0), (name, chosen)
            checked += 1
    assert checked
