"""The table of one row per workload: all rows for docs/benchmarks.md, six of them for README.md."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks import evaluation, shell, small
from benchmarks.gpu_table import ratio
from benchmarks.mask_baselines import SUM
from benchmarks.segmentation_baselines import SECOND_ENTRIES

_SUMMARY = (
    ("detection", "val2017", "files", "pycocotools", "COCO AP from JSON files, {images:,} images"),
    ("detection", "val2017", "tensors", "torchmetrics + pycocotools", "COCO AP from tensors, {images:,} images"),
    ("detection", "objects365", "files", "pycocotools", "AP at Objects365 scale from JSON files, {images:,} images"),
    ("shell", "100", "shell", "pycocotools", "COCO AP from the shell, imports included, {images:,} images"),
    ("shell", "5k", "shell", "pycocotools", "COCO AP from the shell, imports included, {images:,} images"),
    ("shell", "60k", "shell", "pycocotools", "COCO AP from the shell, imports included, {images:,} images"),
    ("masks", "segm-val2017", "segm files", "pycocotools", "COCO mask AP from JSON files, {images:,} images"),
    ("masks", "segm-lvis", "segm files", "pycocotools", "mask AP at LVIS scale from JSON files, {images:,} images"),
    ("masks", "keypoints", "keypoints files", "pycocotools", "keypoint AP from JSON files, {images:,} images"),
    ("masks", "dense", "dense masks", "pycocotools", "mask AP from dense masks, {images:,} images"),
    ("segmentation", "maps-19", "label maps", "scikit-learn", "mIoU, {images:,} label maps 1024 x 2048, 19 classes"),
    ("segmentation", "maps-150", "label maps", "scikit-learn", "mIoU, {images:,} label maps 1024 x 2048, 150 classes"),
    ("segmentation", "logits-150", "logits", "numpy", "mIoU from logits, {images:,} x 150 x 512 x 1024"),
    ("segmentation", "panoptic", "panoptic quality", "loop of numpy", "panoptic quality, {images:,} images"),
    ("segmentation", "surface", "surface distances", "loop of scipy", "surface distances, {images:,} x 512 x 512"),
    ("segmentation", "folder", "PNG files", "Pillow and numpy", "mIoU from {images:,} pairs of PNG files"),
    ("classification", "20k", "top-1", "scikit-learn", "accuracy, precision, recall, F1, {rows:,} x {classes:,}"),
    ("classification", "20k", "confusion matrix", "scikit-learn", "confusion matrix, {rows:,} x {classes:,}"),
    ("classification", "20k", "ROC AUC", "scikit-learn", "macro ROC AUC, exact, {rows:,} x {classes:,}"),
    ("valor_detection", "valor-5k", "objects", "valor-lite", "Valor's AP and AR from objects, {images:,} images"),
    ("valor_detection", "valor-20k", "tensors", "valor-lite", "Valor's AP and AR from tensors, {images:,} images"),
    ("text", "pairs", "ROUGE-1, 2, L and Lsum, from texts", "rouge_score", "ROUGE-1, 2, L, Lsum, {rows:,} texts"),
    ("text", "pairs", "chrF of sentences, from texts", "sacrebleu", "chrF, {rows:,} texts"),
    ("evaluation", "20k", evaluation.BOTH, evaluation.AZURE, "F1 and ROUGE-L, {rows:,} rows"),
    ("evaluation", "20k", evaluation.RUN, evaluation.AZURE, "evaluate() with storage, {rows:,} rows"),
    ("evaluation", "10", evaluation.RUN, evaluation.AZURE, "evaluate() with storage, {rows:,} rows"),
)
"""Kind, case, path and reference of a row, and how it reads; rows that we lose stay in."""
_README = (
    ("detection", "val2017", "files"),
    ("detection", "val2017", "tensors"),
    ("masks", "segm-val2017", "segm files"),
    ("segmentation", "maps-19", "label maps"),
    ("classification", "20k", "ROC AUC"),
    ("text", "pairs", "ROUGE-1, 2, L and Lsum, from texts"),
)
"""Kind, case and path of the rows that README.md shows: one for each kind of input."""
_HEAD = "| | valor_gpu | fastest other engine | reference |\n| --- | --- | --- | --- |"
_EVERY_ROW = "[docs/benchmarks.md](docs/benchmarks.md) has every row, all engines, memory and conditions."

Results = dict[str, list[dict[str, Any]]]


class Line(NamedTuple):
    """A row of the table."""

    name: str
    ours: str
    fastest: str
    """Name of the fastest other engine, and how many times as long it takes."""
    reference: str
    faster: str
    """The fastest engine of others, where it takes less time than ours; empty otherwise."""
    short: bool
    """Whether README.md shows the row."""

    def __str__(self) -> str:
        return f"| {self.name} | {self.ours} | {self.fastest} | {self.reference} |"


def lines(results: Results) -> list[Line]:
    """Returns the rows of all workloads that are among the stored results."""
    found = [_line(results, *workload) for workload in _SUMMARY]
    means = [_mean(*row) for row in small.summary_rows(results.get("small", ()))]
    return [*filter(None, found), *means]


def _mean(name: str, ours: str, times: float) -> Line:
    peer = f"torchmetrics {times:.1f}x"  # the only other engine
    return Line(name, ours, peer, peer, peer if times < 1 else "", short=False)


def _line(results: Results, kind: str, case: str, path: str, reference: str, text: str) -> Line | None:
    rows = [row for result in results.get(kind, ()) for row in result["rows"]]
    rows = [row for row in rows if (row["case"], row["path"]) == (case, path)]
    seconds = {row["tool"]: row["seconds"]["median"] for row in rows if row["status"] == "ok"}
    for name in (shell.SCRIPT, SUM, *SECOND_ENTRIES):
        seconds.pop(name, None)
    ours = seconds.pop("valor_gpu", None)
    if ours is None or not seconds:
        return None
    times = {name: each / ours for name, each in seconds.items()}
    others = [name for name in times if not name.startswith("valor_gpu")]  # not our own second entries
    cells = {name: f"{name} {ratio(each)}" for name, each in times.items()}
    first = min(others, key=lambda name: times[name], default="")
    inside = rows[0].get("without_imports")  # of ours, which comes first
    after = "" if inside is None else f", {figures(inside['median'])} s without"
    return Line(
        text.format(**rows[0]),
        f"**{figures(ours)} s**{after}",
        cells[min(times, key=lambda name: times[name])],
        cells.get(reference, "not run"),
        cells[first] if first and times[first] < 1 else "",
        (kind, case, path) in _README,
    )


def figures(seconds: float) -> str:
    """Returns seconds with three decimals, or three digits from 1 on."""
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.3g}"


def summary(results: Results) -> str:
    """Returns all rows: our seconds, and how many times as long the fastest other engine and the reference take."""
    return "\n".join([_HEAD, *map(str, lines(results))])


def readme_block(results: Results) -> str:
    """Returns six rows of the table, and a sentence that names every row of all in which another engine is faster."""
    every = lines(results)
    lost = [f"{line.name} ({line.faster})" for line in every if line.faster]
    slower = f" Others are faster at: {'; '.join(lost)}." if lost else ""
    count = f"{len(every) - len(lost)} of {len(every)} {'row' if len(every) == 1 else 'rows'}"
    table = "\n".join([_HEAD, *(str(line) for line in every if line.short)])
    return f"{table}\n\nvalor_gpu is the fastest engine in {count} of the summary.{slower} {_EVERY_ROW}"
