"""Detections in shards: one process, and pools of one and two workers, in seconds per million detections.

Images of 25 detections and 8 ground truths of 80 classes, in 16 shards of COCO JSON or Parquet. A run has a number
only if its ``result.json`` has the bytes of that of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.interleave import spread

CASES = {"coco": 1_000_000, "parquet": 1_000_000}
"""Formats, and detections in all shards."""

PACKAGES = ("valor_gpu", "torch", "numpy", "pyarrow")
ENGINES = {"local": ("local", None), "pool of 1": ("pool", 1), "pool of 2": ("pool", 2)}
_SHARDS, _DETECTIONS, _TRUTHS, _CLASSES = 16, 25, 8, 80
_QUICK = 0.01


def make_shards(folder: Path, form: str, detections: int, seed: int) -> dict[str, Any]:
    """Writes the shards, and gives their configuration."""
    images = max(detections // _DETECTIONS // _SHARDS, 1)
    for shard in range(_SHARDS):
        rng = np.random.default_rng((seed, shard))
        ids = np.arange(images) + shard * images
        truths = _boxes(rng, images * _TRUTHS)
        found = _boxes(rng, images * _DETECTIONS)
        near = (np.arange(images)[:, None] * _DETECTIONS + np.arange(_TRUTHS)).reshape(-1)
        found[near] = truths + rng.normal(0, 4, truths.shape) * (1, 1, 0.5, 0.5)
        np.maximum(found[:, 2:], 1.0, out=found[:, 2:])
        labels, gt_labels = (rng.integers(1, _CLASSES + 1, images * count) for count in (_DETECTIONS, _TRUTHS))
        labels[near] = gt_labels
        columns = (ids, found.round(2), rng.random(len(found)).round(4), labels, truths.round(2), gt_labels)
        (_write_coco if form == "coco" else _write_parquet)(folder, shard, *columns)
    metric = {"class": "detection.MeanAveragePrecision", "box_format": "xywh"}
    places = {"ground_truth": f"{folder}/gt-*.json", "detections": f"{folder}/dt-*.json"}
    names = ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "image_id")
    rows = {"files": f"{folder}/*.parquet", "task": "detection", "fields": {name: name for name in names}}
    return {"metrics": {"map": metric}, "data": places if form == "coco" else rows, "output": str(folder / "out")}


def _boxes(rng: np.random.Generator, count: int) -> Any:
    return np.concatenate((rng.uniform(0, 500, (count, 2)), rng.uniform(8, 140, (count, 2))), 1)


def _write_coco(folder: Path, shard: int, ids: Any, found: Any, scores: Any, labels: Any, truths: Any, gt: Any) -> None:
    images, gt_images = ids.repeat(_DETECTIONS).tolist(), ids.repeat(_TRUTHS).tolist()
    rows = zip(images, labels.tolist(), found.tolist(), scores.tolist())
    results = [{"image_id": i, "category_id": c, "bbox": b, "score": s} for i, c, b, s in rows]
    annotations = [
        {"id": n, "image_id": i, "category_id": c, "bbox": b, "area": b[2] * b[3], "iscrowd": 0}
        for n, (i, c, b) in enumerate(zip(gt_images, gt.tolist(), truths.tolist()), 1)
    ]
    categories = [{"id": c} for c in range(1, _CLASSES + 1)]
    whole = {"images": [{"id": i} for i in ids.tolist()], "annotations": annotations, "categories": categories}
    (folder / f"gt-{shard}.json").write_text(json.dumps(whole))
    (folder / f"dt-{shard}.json").write_text(json.dumps(results))


def _write_parquet(
    folder: Path, shard: int, ids: Any, found: Any, scores: Any, labels: Any, truths: Any, gt: Any
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    def listed(values: Any, count: int) -> Any:
        return list(values.reshape(len(ids), count, *values.shape[1:]).tolist())

    sides = {"boxes": found, "scores": scores, "labels": labels}, {"gt_boxes": truths, "gt_labels": gt}
    columns = {name: listed(values, _DETECTIONS) for name, values in sides[0].items()}
    columns |= {name: listed(values, _TRUTHS) for name, values in sides[1].items()}
    parquet.write_table(pa.table({"image_id": ids, **columns}), folder / f"{shard}.parquet")


def measure(form: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all engines for a format, in turn, each into a new output."""
    detections = int(CASES[form] * (_QUICK if arguments.quick else 1))
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ENGINES}
    with tempfile.TemporaryDirectory() as folder:
        config = make_shards(Path(folder), form, detections, arguments.seed)
        for repeat in range(arguments.repeats):
            for name in ENGINES:
                output = Path(folder) / f"{name.replace(' ', '-')}-{repeat}"
                runs[name].append(timed({**config, "output": str(output)}, name))
    wanted = runs["local"][0]["bytes"]
    return [_row(form, detections, name, found, wanted) for name, found in runs.items()]


def timed(config: dict[str, Any], name: str) -> dict[str, Any]:
    """One run, and one more that finds all states on disk and only merges."""
    from valor_gpu.offline import offline_status, run_offline

    engine, workers = ENGINES[name]
    busy: list[float] = []
    peaks: list[int] = []

    def tell(done: int, total: int, record: Any) -> None:
        busy.append(record.cpu_seconds)
        peaks.append(record.peak_bytes)

    begin = time.perf_counter()
    result = run_offline(config, engine, workers, tell)
    seconds, cpu = time.perf_counter() - begin, time.process_time()
    run_offline(config)
    merge = time.process_time() - cpu
    assert result is not None
    return {
        "seconds": seconds, "merge_cpu_seconds": merge,
        "shard_cpu_seconds": sum(busy), "peak_bytes": max(peaks),
        "state_bytes": offline_status(config).state_bytes, "failed": result.counts["failed"],
        "bytes": (Path(config["output"]) / "result.json").read_bytes(),
    }  # fmt: skip


def _row(form: str, detections: int, name: str, runs: list[dict[str, Any]], wanted: bytes) -> dict[str, Any]:
    row = {"case": form, "size": detections, "path": name, "tool": OURS, "package": "valor_gpu"}
    if any(run["bytes"] != wanted or run["failed"] for run in runs):
        return {**row, "status": "mismatch", "reason": "its result.json is not that of one process"}
    times = {key: spread([run[key] for run in runs]) for key in ("seconds", "merge_cpu_seconds", "shard_cpu_seconds")}
    sizes = {key: max(run[key] for run in runs) for key in ("peak_bytes", "state_bytes")}
    return {**row, "status": "ok", **times, **sizes, "shards": _SHARDS}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = list(CASES) if arguments.case == "all" else [arguments.case]
    found = [row for name in names for row in measure(name, arguments)]
    choices: dict[str, Any] = {"quick": arguments.quick, "repeats": arguments.repeats, "seed": arguments.seed}
    choices["load"] = os.getloadavg()[2]
    return {"kind": "offline", **machine.describe(PACKAGES), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """A Markdown table of the newest result, and how it was measured."""
    result = results[-1]
    heads = (
        "offline evaluation of boxes",
        "all",
        "CPU time of shards",
        "CPU time of merge",
        "bytes of state",
        "memory",
    )
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --- |" * 5]
    for row in result["rows"]:
        what = f"{row['case']}, {row['size']:,} detections, {row['path']}"
        if row["status"] != "ok":
            lines.append(f"| {what} | {row['status']} | | | | |")
            continue
        scale = 1e6 / row["size"]
        cells = [f"{row[key]['median'] * scale:.1f} s" for key in ("seconds", "shard_cpu_seconds", "merge_cpu_seconds")]
        cells += [f"{row['state_bytes'] / row['size']:.0f} a detection", f"{row['peak_bytes'] / 2**20:,.0f} MiB"]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    about = result["machine"]
    return "\n".join(lines) + (
        f"\n\nSeconds per million detections, medians of {result['repeats']} runs in turn: all of it by the clock, the"
        " CPU time of shards over all workers without the start of processes, and that of a run that finds all states"
        f" and merges them. {_SHARDS} shards of images with {_DETECTIONS} detections and {_TRUTHS} ground truths; every"
        f" run wrote the same bytes. {about['cpus']} CPUs, {about['processor']}, load {result['load']:.1f};"
        f" Python {about['python']}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
