"""The engines that count pixels: of label maps, of logits and of PNG files. See :mod:`benchmarks.baselines`.

Every engine gets one image at a time, in memory and in the type it takes (valor-lite's labels begin with 1), and ends
with its intersection over union. What is compared: the counts of every class, and IoU.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines import OURS, Clock, Finish, Prepare, Run, Tool
from benchmarks.verify import Outcome
from testing.datasets import Array
from testing.segmentation_datasets import DISTINCT, IGNORED, Maps

Pair = tuple[Array, Array]  # truth and predictions of an image
OURS_TORCH, OURS_NUMPY = "valor_gpu mIOU", "valor_gpu over numpy"
SECOND_ENTRIES = (OURS_TORCH, OURS_NUMPY)
"""Rows of ours beside the first one, which are no peers."""


def pairs_of(files: Maps) -> list[Pair]:
    """All images; maps come again where there are fewer of them."""
    truth, preds = (np.load(path).astype(files.dtype, copy=False) for path in (files.truth, files.preds))
    return [(truth[i % len(truth)], preds[i % len(truth)]) for i in range(files.images)]


def iou_outcome(counts: Any) -> Outcome:
    """Mean and per-class IoU of counts ``[3, C]``; -1 of absent classes, which have no part in the mean."""
    right, predicted, true = counts = np.asarray(counts, np.int64)
    union = predicted + true - right
    iou = np.where(union > 0, right / np.maximum(union, 1), -1.0)
    return Outcome([float(iou[union > 0].mean()), *iou.tolist()], digest_of(counts))


def matrix_outcome(matrix: Any) -> Outcome:
    """The same of a confusion matrix ``[C, C]`` with true classes as rows."""
    counts = np.asarray(matrix).astype(np.int64)
    return iou_outcome([counts.diagonal(), counts.sum(0), counts.sum(1)])


def digest_of(counts: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(counts, np.int64).tobytes()).hexdigest()[:16]


# --------------------------------------------------------------------------------------------------------- label maps


def _arrays(load: Callable[[], Callable[[Maps, list[Pair]], Run]]) -> Callable[[], Prepare]:
    """``start`` of an engine over numpy arrays: ``load`` imports it, what it gives takes the dataset."""

    def start() -> Prepare:
        make = load()
        return lambda files: make(files, pairs_of(files))

    return start


def _load_ours() -> Callable[[Maps, list[Pair]], Run]:
    count_pixels = importlib.import_module("valor_gpu.ops.pixel_counts.cpu").count_pixels
    region_value = importlib.import_module("valor_gpu.reduce.regions").region_value
    importlib.import_module("valor_gpu.native").usable("valor_cpu")  # loads the library

    def make(files: Maps, pairs: list[Pair]) -> Run:
        def run(clock: Clock) -> Finish:
            counts = np.zeros((3, files.classes), np.int64)
            for truth, preds in pairs:
                counts += count_pixels(preds, truth, files.classes, ignore_index=IGNORED)
            region_value("iou", counts, "macro")
            return lambda: iou_outcome(counts)

        return run

    return make


def _load_numpy() -> Callable[[Maps, list[Pair]], Run]:
    def make(files: Maps, pairs: list[Pair]) -> Run:
        def run(clock: Clock) -> Finish:
            matrix = sum(_bincount(truth, preds, files.classes) for truth, preds in pairs)
            return lambda: matrix_outcome(matrix)

        return run

    return make


def _bincount(truth: Array, preds: Array, classes: int) -> Array:
    """The usual recipe."""
    kept = truth != IGNORED
    cells = truth[kept].astype(np.int64) * classes + preds[kept]
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def _load_sklearn() -> Callable[[Maps, list[Pair]], Run]:
    confusion_matrix = importlib.import_module("sklearn.metrics").confusion_matrix

    def make(files: Maps, pairs: list[Pair]) -> Run:
        def run(clock: Clock) -> Finish:
            total = np.zeros((files.classes, files.classes), np.int64)
            for truth, preds in pairs:
                kept = truth != IGNORED
                total += confusion_matrix(truth[kept], preds[kept], labels=range(files.classes))
            return lambda: matrix_outcome(total)

        return run

    return make


def _load_hotcoco() -> Callable[[Maps, list[Pair]], Run]:
    kind = importlib.import_module("hotcoco.semantic").SemanticEval

    def make(files: Maps, pairs: list[Pair]) -> Run:
        def run(clock: Clock) -> Finish:
            engine = kind(files.classes, ignore_index=IGNORED)
            for truth, preds in pairs:
                engine.update(truth, preds)
            engine.results()
            return lambda: matrix_outcome(engine.confusion())

        return run

    return make


def _load_vernier() -> Callable[[Maps, list[Pair]], Run]:
    module = importlib.import_module("vernier.semantic")

    def make(files: Maps, pairs: list[Pair]) -> Run:
        small = [(truth.astype(np.uint8), preds.astype(np.uint8)) for truth, preds in pairs[:DISTINCT]]
        own = [small[i % len(small)] for i in range(files.images)]

        def run(clock: Clock) -> Finish:
            sides = [{i: pair[side] for i, pair in enumerate(own)} for side in (0, 1)]
            data = module.Dataset.from_arrays(sides[0], n_classes=files.classes, ignore_label=IGNORED)
            found = module.Evaluator().evaluate(data, module.Predictions.from_arrays(sides[1]))
            return lambda: matrix_outcome(np.reshape(found.confusion_matrix.counts(), (files.classes, -1)))

        return run

    return make


def _load_lite() -> Callable[[Maps, list[Pair]], Run]:
    """Its label 0 is "none", and a prediction there a false positive: ignored pixels are 0 on both sides."""
    module = importlib.import_module("valor_lite.semantic_segmentation")

    def make(files: Maps, pairs: list[Pair]) -> Run:
        ready = [
            [np.where(truth == IGNORED, 0, side.astype(np.uint16) + 1) for side in (truth, preds)]
            for truth, preds in pairs[:DISTINCT]
        ]
        names = [f"c{i}" for i in range(files.classes)]

        def run(clock: Clock) -> Finish:
            loader = module.Loader.in_memory()
            for i in range(files.images):
                truth, preds = ready[i % len(ready)]
                loader.add_data([module.Segmentation(uid=str(i), groundtruths=truth, predictions=preds, labels=names)])
            found = loader.finalize().compute_precision_recall_iou()
            return lambda: Outcome(_lite_numbers(found, names))

        return run

    return make


def _lite_numbers(found: Any, names: list[str]) -> list[float]:
    values = {kind.value: metrics for kind, metrics in found.items()}
    iou = {metric.parameters["label"]: float(metric.value) for metric in values["IOU"]}
    known = [iou.get(name, -1.0) for name in names]
    return [float(values["mIOU"][0].value), *known]


def _metric(load: Callable[[], Callable[[int], Any]], read: Callable[[Any], Outcome]) -> Callable[[], Prepare]:
    """``start`` of a torch metric, which gets one image at a time ``[1, H, W]``."""

    def start() -> Prepare:
        make = load()
        torch = importlib.import_module("torch")

        def prepare(files: Maps) -> Run:
            ready = [[torch.from_numpy(side)[None] for side in pair] for pair in pairs_of(files)]
            return lambda clock: _update_and_compute(make(files.classes), ready, clock, read)

        return prepare

    return start


def _update_and_compute(metric: Any, ready: Any, clock: Clock, read: Callable[[Any], Outcome]) -> Finish:
    with clock.phase("update"):
        for truth, preds in ready:
            metric.update(preds, truth)
    with clock.phase("compute"):
        metric.compute()
    return lambda: read(metric)


def _our_metric() -> Callable[[int], Any]:
    kind = importlib.import_module("valor_gpu.segmentation").mIOU
    return lambda classes: kind(classes, ignore_index=IGNORED)


def _read_ours(metric: Any) -> Outcome:
    values = metric.result().values
    return iou_outcome([np.asarray(values[name]) for name in ("tp", "predicted", "true")])


def _jaccard() -> Callable[[int], Any]:
    kind = importlib.import_module("torchmetrics.classification").MulticlassJaccardIndex
    return lambda classes: kind(classes, ignore_index=IGNORED, validate_args=False)


def _read_jaccard(metric: Any) -> Outcome:
    return matrix_outcome(metric.confmat.numpy())


# ------------------------------------------------------------------------------------------------------------- logits


def logits_of(files: Maps) -> Iterator[tuple[Array, Array]]:
    """Truth ``[H, W]`` and float32 logits ``[C, H, W]`` of every image, whose largest are the predictions."""
    for seed, (truth, preds) in enumerate(pairs_of(files)):
        logits = np.random.default_rng(seed).random((files.classes, *truth.shape), np.float32)
        np.put_along_axis(logits, preds[None].astype(np.int64), 1.5, 0)
        yield truth, logits


def _logit_metric(load: Callable[[], Callable[[int], Any]], read: Any, argmax: bool = False) -> Callable[[], Prepare]:
    def start() -> Prepare:
        make = load()
        torch = importlib.import_module("torch")

        def prepare(files: Maps) -> Run:
            ready = [[torch.from_numpy(side)[None] for side in pair] for pair in logits_of(files)]
            late = ((truth, logits.argmax(1) if argmax else logits) for truth, logits in ready)
            return lambda clock: _update_and_compute(make(files.classes), late, clock, read)

        return prepare

    return start


def _start_logits(ours: bool) -> Prepare:
    count_logits = importlib.import_module("valor_gpu.ops.pixel_counts.cpu").count_logits if ours else None

    def prepare(files: Maps) -> Run:
        ready = list(logits_of(files))

        def run(clock: Clock) -> Finish:
            if count_logits:
                counts = sum(count_logits(x[None], truth[None], ignore_index=IGNORED) for truth, x in ready)
                return lambda: iou_outcome(counts)
            matrix = sum(_bincount(truth, logits.argmax(0), files.classes) for truth, logits in ready)
            return lambda: matrix_outcome(matrix)

        return run

    return prepare


# ---------------------------------------------------------------------------------------------------------- PNG files


def _start_command() -> Prepare:
    main = importlib.import_module("valor_gpu.cli").main
    for name in ("valor_gpu.segmentation.label_map_folders", "valor_gpu.report.segmentation", "PIL.PngImagePlugin"):
        importlib.import_module(name)
    importlib.import_module("valor_gpu.native").usable("valor_cpu")  # loads the library

    def prepare(files: Maps) -> Run:
        output = Path(tempfile.mkdtemp()) / "result.json"
        command = ["segment", "--gt", str(files.truth), "--pred", str(files.preds), "--num-classes"]
        command += [str(files.classes), "--ignore", str(IGNORED), "--json", str(output)]

        def run(clock: Clock) -> Finish:
            with contextlib.redirect_stderr(io.StringIO()):
                status = main(command)
            assert not status, status
            return lambda: _read_document(json.loads(output.read_text()))

        return run

    return prepare


def _read_document(found: Any) -> Outcome:
    values = found["values"]
    iou = [-1.0 if value is None else float(value) for value in values["iou_per_class"].values()]
    return Outcome([float(values["miou"]), *iou])


def _start_loop() -> Prepare:
    image = importlib.import_module("PIL.Image")

    def prepare(files: Maps) -> Run:
        def run(clock: Clock) -> Finish:
            total = np.zeros((files.classes, files.classes), np.int64)
            for path in sorted(files.truth.iterdir()):
                sides = (np.asarray(image.open(folder / path.name)) for folder in (files.truth, files.preds))
                total += _bincount(*sides, files.classes)
            return lambda: matrix_outcome(total)

        return run

    return prepare


def _start_hotcoco_folders() -> Prepare:
    kind = importlib.import_module("hotcoco.semantic").SemanticEval

    def prepare(files: Maps) -> Run:
        def run(clock: Clock) -> Finish:
            engine = kind(files.classes, ignore_index=IGNORED)
            engine.update_folders(str(files.truth), str(files.preds))
            engine.results()
            return lambda: matrix_outcome(engine.confusion())

        return run

    return prepare


_SKLEARN, _HOTCOCO, _TORCHMETRICS = "scikit-learn", "hotcoco", "torchmetrics"

PIXEL_TOOLS: dict[str, tuple[Tool, ...]] = {
    "label maps": (
        Tool(OURS, OURS, "counts", _arrays(_load_ours)),
        Tool(OURS_TORCH, OURS, "counts", _metric(_our_metric, _read_ours), floor=True),
        Tool(_HOTCOCO, _HOTCOCO, "counts", _arrays(_load_hotcoco)),
        Tool("vernier", "vernier", "counts", _arrays(_load_vernier)),
        Tool("numpy bincount", "numpy", "counts", _arrays(_load_numpy), slow=True),
        Tool(_TORCHMETRICS, _TORCHMETRICS, "counts", _metric(_jaccard, _read_jaccard), slow=True),
        Tool("valor-lite", "valor-lite", "ratios", _arrays(_load_lite), slow=True),
        Tool(_SKLEARN, _SKLEARN, "counts", _arrays(_load_sklearn), slow=True),
    ),
    "logits": (
        Tool(OURS, OURS, "counts", _logit_metric(_our_metric, _read_ours)),
        Tool(OURS_NUMPY, OURS, "counts", lambda: _start_logits(True), floor=True),
        Tool("argmax + torchmetrics", _TORCHMETRICS, "counts", _logit_metric(_jaccard, _read_jaccard, True), slow=True),
        Tool(_TORCHMETRICS, _TORCHMETRICS, "counts", _logit_metric(_jaccard, _read_jaccard), slow=True),
        Tool("numpy", "numpy", "counts", lambda: _start_logits(False), slow=True),
    ),
    "PNG files": (
        Tool(OURS, OURS, "ratios", _start_command),
        Tool(_HOTCOCO, _HOTCOCO, "counts", _start_hotcoco_folders),
        Tool("Pillow and numpy", "pillow", "counts", _start_loop, slow=True),
    ),
}
"""Engines by path; ours first."""
