"""The engines of classification: how each gets from scores to numbers. See :mod:`benchmarks.baselines` for the steps.

Engines that take batches get 1,024 rows at a time and end with their ``compute``; the others get all rows at once.
Reading the outcome, in float64 where the engine has it, is not timed.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.baselines import OURS, Clock, Finish, Prepare, Run, Tool
from benchmarks.scores import Files
from benchmarks.verify import Outcome
from testing.datasets import Array

BATCH = 1024
THRESHOLDS = 200
TOP_1 = ("accuracy macro", "accuracy micro", "precision", "recall", "f1")

Make = Callable[[int], Any]
Read = Callable[[Any], Outcome]


def digest_counts(matrix: Any) -> str:
    """Of a matrix of counts, whatever holds it."""
    return hashlib.sha256(np.ascontiguousarray(matrix, np.int64).tobytes()).hexdigest()[:16]


def confusion(matrix: Any) -> Outcome:
    """Accuracy and digest of a confusion matrix."""
    counts = np.asarray(matrix)
    return Outcome([float(np.trace(counts) / counts.sum())], digest_counts(counts))


def curve_margins(precision: Any, recall: Any) -> Outcome:
    """Means of both ``[C, T + 1]`` over classes and over thresholds: a wrong entry shows in two of them.

    NaN (nothing predicted) counts as 0 in them; where it stands goes into the digest.
    """
    arrays = [np.asarray(values, np.float64) for values in (precision, recall)]
    absent = digest_counts(np.stack([np.isnan(values) for values in arrays]))
    return Outcome([float(m) for v in arrays for axis in (0, 1) for m in np.nan_to_num(v).mean(axis)], absent)


# -------------------------------------------------------------------------------------- engines that take batches


def _streaming(load: Callable[[], tuple[Make, Read]]) -> Callable[[], Prepare]:
    """``start`` of an engine with ``update`` and ``compute``.

    ``load`` imports it and gives how to make it for a number of classes, and how to read it afterwards.
    """

    def start() -> Prepare:
        make, read = load()
        torch = importlib.import_module("torch")

        def prepare(files: Files) -> Run:
            scores, target = (torch.from_numpy(np.load(path)) for path in files)
            batches = [(scores[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(target), BATCH)]
            return lambda clock: _update_and_compute(make(scores.shape[1]), batches, read, clock)

        return prepare

    return start


def _update_and_compute(metric: Any, batches: list[Any], read: Read, clock: Clock) -> Finish:
    with clock.phase("update"):
        for preds, target in batches:
            metric.update(preds, target)
    with clock.phase("compute"):
        metric.compute()
    return lambda: read(metric)


def _ours(read: Read, name: str, **choices: Any) -> Callable[[], Prepare]:
    """``start`` of one of our metrics."""

    def load() -> tuple[Make, Read]:
        metric = getattr(importlib.import_module("valor_gpu.classification"), name)
        return lambda classes: metric(num_classes=classes, **choices), read

    return _streaming(load)


def _our_number(metric: Any) -> Outcome:
    return Outcome([float(metric.result().values[type(metric).__name__])])


def _torchmetrics(read: Read, name: str, **choices: Any) -> Callable[[], Prepare]:
    """``start`` of one of torchmetrics' metrics, without its checks of values."""

    def load() -> tuple[Make, Read]:
        metric = getattr(importlib.import_module("torchmetrics.classification"), f"Multiclass{name}")
        return lambda classes: metric(classes, validate_args=False, **choices), read

    return _streaming(load)


def _collection(module: str, prefix: str, read: Read, **choices: Any) -> Callable[[], Prepare]:
    """``start`` of the top-1 family in one collection, of either library."""

    def load() -> tuple[Make, Read]:
        metrics = importlib.import_module(module)
        collection = importlib.import_module("torchmetrics").MetricCollection
        names = ("Accuracy", "Accuracy", "Precision", "Recall", "F1Score")
        kinds = [(getattr(metrics, prefix + n), "micro" if i == 1 else "macro") for i, n in enumerate(names)]

        def make(classes: int) -> Any:
            made = (kind(num_classes=classes, average=average, **choices) for kind, average in kinds)
            return collection(dict(zip(TOP_1, made)))

        return make, read

    return _streaming(load)


def _computed(metric: Any) -> Outcome:
    """Of a metric or collection whose ``compute`` gives numbers; it is cached."""
    value = metric.compute()
    return Outcome([float(value[name]) for name in TOP_1] if isinstance(value, Mapping) else [float(value)])


def _our_collection(collection: Any) -> Outcome:
    return Outcome([number for name in TOP_1 for number in _our_number(collection[name]).stats])


def _curve(metric: Any) -> Outcome:
    precision, recall, _ = metric.compute()
    return curve_margins(precision, recall)


def _our_curve(metric: Any) -> Outcome:
    values = metric.result().values
    return curve_margins(*(np.stack(list(values[name].values())) for name in ("precision", "recall")))


# -------------------------------------------------------------------------------------------------- engines of arrays


def _arrays(load: Callable[[], Callable[[Array, Array], Outcome]]) -> Callable[[], Prepare]:
    """``start`` of an engine that takes all scores and targets at once; ``load`` imports it and gives the work."""

    def start() -> Prepare:
        work = load()

        def prepare(files: Files) -> Run:
            scores, target = (np.load(path) for path in files)

            def run(clock: Clock) -> Finish:
                with clock.phase("compute"):
                    outcome = work(scores, target)
                return lambda: outcome

            return run

        return prepare

    return start


def _scikit_learn(work: Callable[[Any, Array, Array], Outcome]) -> Callable[[], Prepare]:
    """``start`` of ``work(sklearn.metrics, scores, target)``."""

    def load() -> Callable[[Array, Array], Outcome]:
        metrics = importlib.import_module("sklearn.metrics")
        return lambda scores, target: work(metrics, scores, target)

    return _arrays(load)


def _sk_top_1(metrics: Any, scores: Array, target: Array) -> Outcome:
    found = scores.argmax(1)
    macro = metrics.precision_recall_fscore_support(target, found, average="macro", zero_division=0)
    accuracies = metrics.balanced_accuracy_score(target, found), metrics.accuracy_score(target, found)
    return Outcome([float(number) for number in (*accuracies, *macro[:3])])


def _sk_top_5(metrics: Any, scores: Array, target: Array) -> Outcome:
    return Outcome([float(metrics.top_k_accuracy_score(target, scores, k=5, labels=range(scores.shape[1])))])


def _sk_confusion(metrics: Any, scores: Array, target: Array) -> Outcome:
    return confusion(metrics.confusion_matrix(target, scores.argmax(1), labels=range(scores.shape[1])))


def _sk_roc_auc(metrics: Any, scores: Array, target: Array) -> Outcome:
    return Outcome([float(metrics.roc_auc_score(target, scores, multi_class="ovr", labels=range(scores.shape[1])))])


def _sk_average_precision(metrics: Any, scores: Array, target: Array) -> Outcome:
    each = (metrics.average_precision_score(target == c, scores[:, c]) for c in range(scores.shape[1]))
    return Outcome([float(np.mean(list(each)))])


def _numpy(read: Callable[[Array, Array], Outcome]) -> Callable[[], Prepare]:
    """``start`` of counts at thresholds by ``searchsorted`` and ``bincount``; ``read`` takes tp and fp ``[T, C]``."""

    def load() -> Callable[[Array, Array], Outcome]:
        thresholds = even_thresholds()
        return lambda scores, target: read(*counts_at(thresholds, scores, target))

    return _arrays(load)


def counts_at(thresholds: Array, scores: Array, target: Array) -> tuple[Array, Array]:
    """tp and fp, int64 ``[T, C]``: ``score >= t`` in float32."""
    classes, buckets = scores.shape[1], len(thresholds) + 1
    every, positive = (np.zeros(classes * buckets, np.int64) for _ in range(2))
    for start in range(0, len(target), BATCH):
        rows, truth = scores[start : start + BATCH], target[start : start + BATCH]
        places = np.searchsorted(thresholds, rows, side="right") + np.arange(classes) * buckets
        every += np.bincount(places.ravel(), minlength=len(every))
        positive += np.bincount(places[np.arange(len(truth)), truth], minlength=len(positive))
    at_or_above = [counts.reshape(classes, buckets)[:, ::-1].cumsum(1)[:, ::-1].T for counts in (every, positive)]
    return at_or_above[1][1:], at_or_above[0][1:] - at_or_above[1][1:]


def even_thresholds() -> Array:
    """Those that torchmetrics makes of a number, float32 ``[T]``."""
    made: Array = importlib.import_module("torch").linspace(0, 1, THRESHOLDS).numpy()
    return made


def _numpy_roc_auc(tp: Array, fp: Array) -> Outcome:
    tpr, fpr = tp / tp[0], fp / fp[0]  # every score reaches the first threshold, 0
    areas = ((tpr[1:] + tpr[:-1]) / 2 * (fpr[:-1] - fpr[1:])).sum(0)
    return Outcome([float(areas.mean())])


def _numpy_curve(tp: Array, fp: Array) -> Outcome:
    precision = np.divide(tp, tp + fp, out=np.full(tp.shape, np.nan), where=tp + fp > 0)
    ends = np.ones((1, tp.shape[1]))
    return curve_margins(np.concatenate([precision, ends]).T, np.concatenate([tp / tp[0], 0 * ends]).T)


# --------------------------------------------------------------------------------------------------------- valor-lite


def _valor_lite(work: Callable[[Any, Any], Outcome]) -> Callable[[], Prepare]:
    """``start`` of ``work(MetricType, evaluator)``, from its objects, whose making is not timed."""

    def start() -> Prepare:
        module = importlib.import_module("valor_lite.classification")

        def prepare(files: Files) -> Run:
            scores, target = (np.load(path) for path in files)
            labels = [str(c) for c in range(scores.shape[1])]
            samples = [
                module.Classification(str(i), labels[truth], labels, row.tolist())
                for i, (truth, row) in enumerate(zip(target.tolist(), scores))
            ]

            def run(clock: Clock) -> Finish:
                with clock.phase("load"):
                    loader = module.Loader.in_memory()
                    loader.add_data(samples)
                    evaluator = loader.finalize()
                with clock.phase("compute"):
                    outcome = work(module.MetricType, evaluator)
                return lambda: outcome

            return run

        return prepare

    return start


def _valor_top_1(kinds: Any, evaluator: Any) -> Outcome:
    found = evaluator.compute_precision_recall(score_thresholds=[0.0], hardmax=True)
    precision, recall, f1 = (
        float(np.mean([metric.value for metric in found[kind]])) for kind in (kinds.Precision, kinds.Recall, kinds.F1)
    )
    return Outcome([recall, float(found[kinds.Accuracy][0].value), precision, recall, f1])


def _valor_roc_auc(kinds: Any, evaluator: Any) -> Outcome:
    return Outcome([float(evaluator.compute_rocauc()[kinds.mROCAUC][0].value)])


# -------------------------------------------------------------------------------------------------------------- tables

REFERENCE, COUNTS = "scikit-learn", "numpy searchsorted"
_LITE = 1_000  # rows of 1,000 classes take valor-lite half a minute
_TORCH_BINNED = 20_000  # take torchmetrics half a minute


def _tools(ours: Any, torchmetrics: Any, others: Mapping[str, Any], binned: bool = False) -> tuple[Tool, ...]:
    most = _TORCH_BINNED if binned else None
    tools = [
        Tool(OURS, OURS, "float64", ours),
        Tool("torchmetrics", "torchmetrics", "float32", torchmetrics, slow=binned, most=most),
    ]
    for name, start in others.items():
        lite = name == "valor-lite"
        tools.append(Tool(name, name.split()[0], "float64", start, slow=True, most=_LITE if lite else None))
    return tuple(tools)


TOOLS: dict[str, tuple[Tool, ...]] = {
    "top-1": _tools(
        _collection("valor_gpu.classification", "", _our_collection),
        _collection("torchmetrics.classification", "Multiclass", _computed, validate_args=False),
        {REFERENCE: _scikit_learn(_sk_top_1), "valor-lite": _valor_lite(_valor_top_1)},
    ),
    "top-5": _tools(
        _ours(_our_number, "Accuracy", average="micro", top_k=5),
        _torchmetrics(_computed, "Accuracy", average="micro", top_k=5),
        {REFERENCE: _scikit_learn(_sk_top_5)},
    ),
    "confusion matrix": _tools(
        _ours(lambda metric: confusion(metric.compute()), "ConfusionMatrix"),
        _torchmetrics(lambda metric: confusion(metric.compute()), "ConfusionMatrix"),
        {REFERENCE: _scikit_learn(_sk_confusion)},
    ),
    "ROC AUC at thresholds": _tools(
        _ours(_our_number, "ROCAUC", thresholds=THRESHOLDS),
        _torchmetrics(_computed, "AUROC", thresholds=THRESHOLDS),
        {COUNTS: _numpy(_numpy_roc_auc)},
        binned=True,
    ),
    "precision-recall at thresholds": _tools(
        _ours(_our_curve, "PrecisionRecallCurve", thresholds=THRESHOLDS),
        _torchmetrics(_curve, "PrecisionRecallCurve", thresholds=THRESHOLDS),
        {COUNTS: _numpy(_numpy_curve)},
        binned=True,
    ),
    "ROC AUC": _tools(
        _ours(_our_number, "ROCAUC"),
        _torchmetrics(_computed, "AUROC"),
        {REFERENCE: _scikit_learn(_sk_roc_auc), "valor-lite": _valor_lite(_valor_roc_auc)},
    ),
    "average precision": _tools(
        _ours(_our_number, "AveragePrecision"),
        _torchmetrics(_computed, "AveragePrecision"),
        {REFERENCE: _scikit_learn(_sk_average_precision)},
    ),
}
"""All engines by work; ours first, the reference third."""
