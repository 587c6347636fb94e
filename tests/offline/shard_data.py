"""Shards of every format, made in a folder, and their configurations."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
GT = ROOT / "examples/data/instances_val2014_100.json"
DT = ROOT / "examples/data/instances_val2014_fakebbox100_results.json"
MASKS = ROOT / "examples/data/label_maps"


def classification_rows(shards: int = 5, rows: int = 60, seed: int = 0) -> list[list[dict[str, Any]]]:
    rng = np.random.default_rng(seed)
    return [
        [
            {"scores": rng.dirichlet(np.ones(4)).tolist(), "truth": int(rng.integers(4)), "weight": rng.random()}
            for _ in range(rows + part)
        ]
        for part in range(shards)
    ]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def classification(folder: Path, shards: int = 5, rows: int = 60, **more: Any) -> dict[str, Any]:
    """JSON lines of weighted scores; sums of weights show in which order they were added."""
    for part, listed in enumerate(classification_rows(shards, rows)):
        write_jsonl(folder / f"part-{part}.jsonl", listed)
    fields = {"preds": "scores", "target": "truth", "weight": "weight"}
    return {
        "metrics": {
            "accuracy": {"class": "classification.Accuracy", "num_classes": 4},
            "auc": {"class": "classification.ROCAUC", "num_classes": 4, "score_dtype": "float64"},
            "calibration": {"class": "classification.CalibrationError", "num_classes": 4},
        },
        "data": {"files": str(folder / "part-*.jsonl"), "task": "classification", "fields": fields, "batch_size": 16},
        "output": str(folder / "out"),
        **more,
    }


def coco(folder: Path, parts: int = 4, **more: Any) -> dict[str, Any]:
    """The bundled images in pairs of files, in ascending order of ids."""
    truth, found = json.loads(GT.read_text()), json.loads(DT.read_text())
    ids = sorted(image["id"] for image in truth["images"])
    for part in range(parts):
        mine = set(ids[part * len(ids) // parts : (part + 1) * len(ids) // parts])
        kept = {
            "images": [image for image in truth["images"] if image["id"] in mine],
            "annotations": [row for row in truth["annotations"] if row["image_id"] in mine],
            "categories": truth["categories"],
        }
        (folder / f"gt-{part}.json").write_text(json.dumps(kept))
        (folder / f"dt-{part}.json").write_text(json.dumps([row for row in found if row["image_id"] in mine]))
    return {
        "metrics": {"map": {"class": "detection.MeanAveragePrecision", "box_format": "xywh"}},
        "data": {"ground_truth": str(folder / "gt-*.json"), "detections": str(folder / "dt-*.json"), "batch_size": 7},
        "output": str(folder / "out"),
        **more,
    }


def add_member(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def webdataset(folder: Path, parts: int = 3, **more: Any) -> dict[str, Any]:
    """The bundled label maps in tar files."""
    names = sorted(path.name for path in (MASKS / "gt").glob("*.png"))
    for part in range(parts):
        with tarfile.open(folder / f"masks-{part}.tar", "w") as archive:
            for name in names[part::parts]:
                for side in ("gt", "pred"):
                    add_member(archive, name.replace(".png", f".{side}.png"), (MASKS / side / name).read_bytes())
    classes = len((MASKS / "names.txt").read_text().splitlines())
    metric = {"class": "segmentation.mIOU", "num_classes": classes, "ignore_index": 255}
    return {
        "metrics": {"miou": metric},
        "data": {
            "files": str(folder / "masks-*.tar"),
            "fields": {"preds": "pred.png", "target": "gt.png"},
        },
        "output": str(folder / "out"),
        **more,
    }
