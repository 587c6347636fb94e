"""torchmetrics' names: classes of one task, ``task=`` and functions give its values for its arguments."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peers
import torchmetrics.functional.classification as peer_functions
from torchmetrics import MetricCollection

from tools import make_names
from valor_gpu import classification, functional
from valor_gpu.classification import AUROC, Accuracy, BinaryAUROC, MulticlassAccuracy, MulticlassAUROC
from valor_gpu.compat.torchmetrics.task_names import ANY, OWN, TASKS, Named
from valor_gpu.compat.torchmetrics.task_names import NAMED as ROWS
from valor_gpu.errors import InputError, InputTypeError

OWN_ROWS: set[str] = set()
"""Rows of the table whose metric torchmetrics does not have."""

KNOWN = [named for named in ROWS.values() if named.row.name not in OWN_ROWS]
NAMED = [named for named in KNOWN if named.task != ANY]
SIZES: dict[str, dict[str, Any]] = {"binary": {}, "multiclass": {"num_classes": 4}, "multilabel": {"num_labels": 3}}
GIVEN = {"beta": 0.5, "min_recall": 0.4, "min_precision": 0.5, "min_sensitivity": 0.4, "min_specificity": 0.6}
TRIED: dict[str, tuple[Any, ...]] = {
    "average": ("micro", "macro", "weighted", "none", None),
    "top_k": (2,),
    "threshold": (0.3,),
    "ignore_index": (-1,),
    "validate_args": (False,),
    "multidim_average": ("global",),
    "zero_division": (1,),
    "thresholds": (7, [0.0, 0.25, 0.5, 1.0]),
    "normalize": ("true", "pred", "all", "none"),
    "weights": ("linear", "quadratic"),
    "n_bins": (4,),
    "norm": ("l2", "max"),
    "max_fpr": (0.4,),
    "fpr_range": ((0.03, 0.3),),  # torchmetrics reads some others off points that it sorts by an unstable sort
    "squared": (True,),
    "multiclass_mode": ("one-vs-all",),
    "normalization": (None,),
    "beta": (2.0,),
    "min_recall": (0.9,),
    "min_precision": (0.9,),
    "min_sensitivity": (0.9,),
    "min_specificity": (0.9,),
}
"""Argument to the values that programs give it, one at a time."""

DEPARTURES = {
    "MulticlassPrecisionRecallCurve": (("average", "macro"),),  # the mean at equal recall, not at equal precision
    "MultilabelCoverageError": (("ignore_index", -1),),  # left out; torchmetrics takes them for negatives
    "MultilabelRankingAveragePrecision": (("ignore_index", -1),),
    "MultilabelRankingLoss": (("ignore_index", -1),),
}
"""Documented differences: class to arguments."""


def batch(task: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and target of 60 samples; every class occurs."""
    generator = torch.Generator().manual_seed(5)
    if task == "multiclass":
        return torch.randn((60, 4), generator=generator).softmax(1), torch.arange(60) % 4
    shape = (60,) if task == "binary" else (60, 3)
    target = (torch.rand(shape, generator=generator) < 0.4).long()
    return (
        0.6 * torch.rand(shape, generator=generator) + 0.4 * target * torch.rand(shape, generator=generator)
    ), target


def needed(row: Named) -> dict[str, Any]:
    return {**SIZES[row.task], **{name: GIVEN[name] for name in row.arguments if name in GIVEN}}


def data_of(task: str, ignored: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch, with targets of -1 where that is what is left out."""
    scores, target = batch(task)
    if ignored is not None:
        target[::7] = ignored
    return scores, target


def programs() -> list[tuple[str, dict[str, Any]]]:
    """(class, arguments) of every program."""
    listed: list[tuple[str, dict[str, Any]]] = []
    for row in NAMED:
        listed.append((row.name, needed(row)))
        tried = [(argument, value) for argument in row.arguments for value in TRIED.get(argument, ())]
        listed += [(row.name, {**needed(row), argument: value}) for argument, value in tried]
    return [(name, given) for name, given in listed if not impossible(ROWS[name], given)]


def impossible(row: Named, given: dict[str, Any]) -> bool:
    """Arguments that torchmetrics rejects, or for which the number differs on purpose."""
    average = given.get("average", "macro")
    if any(given.get(argument) == value for argument, value in DEPARTURES.get(row.name, ())):
        return True
    curves = row.row.name in ("EER", "ROC", "PrecisionRecallCurve") and average not in ("micro", "macro", None)
    curves |= row.row.name == "LogAUC" and average in ("micro", "weighted")
    return curves or (row.name in ("MulticlassAUROC", "MulticlassAveragePrecision") and average == "micro")


def compare(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            compare(one, other)
        return
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True, check_dtype=False)


@pytest.mark.parametrize("name", [row.name for row in NAMED])
def test_values_are_those_of_torchmetrics(name: str) -> None:
    row, ran = ROWS[name], 0
    for given in (given for other, given in programs() if other == name):
        inputs = data_of(row.task, given.get("ignore_index"))
        theirs, mine = getattr(peers, name)(**given), getattr(classification, name)(**given)
        for metric in (theirs, mine):
            metric.update(*inputs)
        expected = theirs.compute()
        compare(mine.compute(), expected)
        compare(
            getattr(functional, row.function)(*inputs, **{k: v for k, v in given.items() if k != "normalization"}),
            getattr(peer_functions, row.function)(*inputs, **{k: v for k, v in given.items() if k != "normalization"}),
        )
        ran += 1
    assert ran >= 2


@pytest.mark.parametrize("row", [row for row in KNOWN if row.task == ANY], ids=lambda row: row.name)
def test_task_chooses_the_class_of_that_name(row: Named) -> None:
    for task in TASKS:
        if (name := f"{task.capitalize()}{row.name}") not in ROWS:
            with pytest.raises(InputError, match=f"^task must be '.*' for {row.name} but got '{task}'$"):
                getattr(classification, row.name)(task=task, **SIZES[task])
            continue
        given = needed(ROWS[name])
        theirs = getattr(peers, row.name)(task=task, **given)
        mine = getattr(classification, row.name)(task, **given)
        assert type(mine).__name__ == type(theirs).__name__ == name
        inputs = batch(task)
        compare(mine(*inputs), theirs(*inputs))
        compare(getattr(functional, row.function)(*inputs, task, **given), mine.compute())
        assert (mine.num_classes, mine.num_labels) == (given.get("num_classes"), given.get("num_labels"))


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row.name)
def test_arguments_are_those_of_torchmetrics(row: Named) -> None:
    """Names and order, and the defaults of arguments that may be left out."""

    def declared(function: Any) -> dict[str, Any]:
        parameters = inspect.signature(function).parameters.values()
        left = (
            "self",
            "cls",
            "args",
            "kwargs",
            "preds",
            "target",
            "y_true",
            "y_pred",
            *OWN.get(row.row.family, ()),
        )
        return {p.name: None if p.default is p.empty else p.default for p in parameters if p.name not in left}

    theirs = getattr(peers, row.name)
    if row.made:
        assert list(declared(getattr(classification, row.name).__init__).items()) == list(
            declared(theirs.__init__).items()
        )
    mine, peer = getattr(functional, row.function), getattr(peer_functions, row.function)
    assert list(declared(mine).items()) == list(declared(peer).items())
    assert list(inspect.signature(mine).parameters)[:2] == ["preds", "target"]


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_the_bin_of_exactly_one_of_torchmetrics_is_an_option(norm: str) -> None:
    """Sigmoid and softmax often give 1 in half precision."""
    scores, target = torch.tensor([0.95, 1.0, 1.0, 0.2]), torch.tensor([1, 0, 1, 0])
    maps = torch.stack((scores, 1 - scores), 1)
    given: dict[str, Any] = {"n_bins": 10, "norm": norm}
    for inputs, task, sizes in (
        ((scores, target), "binary", {}),
        ((maps, 1 - target), "multiclass", {"num_classes": 2}),
    ):
        row = ROWS[f"{task.capitalize()}CalibrationError"]
        expected = getattr(peer_functions, row.function)(*inputs, **given, **sizes)
        own = {**given, **sizes, "separate_ones": True}
        compare(getattr(functional, row.function)(*inputs, **own), expected)
        compare(functional.calibration_error(*inputs, task, **own), expected)
        compare(getattr(classification, row.name)(**own)(*inputs), expected)
        compare(classification.CalibrationError(task, **own)(*inputs), expected)
        assert not torch.allclose(getattr(functional, row.function)(*inputs, **given, **sizes), expected)


def test_stubs_are_what_the_table_makes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["make_names.py", "--check"])
    assert make_names.main() == 0, capsys.readouterr().out


def test_numbers_of_python_and_numpy_are_taken() -> None:
    scores, target = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
    for kind in (list, np.array, torch.tensor):
        assert functional.auroc(kind(scores), kind(target), "binary") == 0.75
        assert functional.binary_auroc(y_true=kind(target), y_pred=kind(scores)) == 0.75
        metric = AUROC() if kind is not np.array else AUROC(score_dtype=torch.float64)
        assert metric(kind(scores), kind(target)) == 0.75
    with pytest.raises(InputError, match="preds must hold numbers, in rows of one length"):
        functional.accuracy([[1], [1, 2]], [0, 1], "multiclass", num_classes=3)
    with pytest.raises(InputTypeError, match="preds must be Tensor or ndarray or list or tuple but got str"):
        functional.accuracy("01", [0, 1], "binary")


@pytest.mark.parametrize("given", [{}, {"preds": [1]}, {"preds": [1], "y_pred": [1]}, {"y_true": [1]},
                                   {"preds": [1], "target": [1], "y_true": [1], "y_pred": [1]}])  # fmt: skip
def test_a_function_needs_one_pair(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"preds and target must be given, or y_true and y_pred, but got"):
        functional.binary_accuracy(**given)


def test_float64_scores_are_kept_as_they_are() -> None:
    scores = np.array([0.3, 0.3 + 1e-12, 0.5, 0.1])
    metric = BinaryAUROC()
    metric.update(scores, np.array([0, 1, 1, 0]))
    assert metric.compute() == 1 and metric.state().scores.dtype == torch.float64
    proba = np.random.default_rng(0).dirichlet([1, 1, 1], 20)
    MulticlassAUROC(3).update(proba, np.arange(20) % 3)
    with pytest.raises(InputError, match="score_dtype"):
        AUROC(3).update(proba, np.arange(20) % 3)


def test_collections_name_metrics_as_torchmetrics_does() -> None:
    mine = MetricCollection([AUROC("binary"), Accuracy("binary"), AUROC(3)])
    assert set(mine) == {"BinaryAUROC", "BinaryAccuracy", "AUROC"}
    assert "AUROC" in updated_result()


def updated_result() -> Any:
    metric = AUROC()
    metric.update([0.1, 0.9], [0, 1])
    return metric.result().values


@pytest.mark.parametrize(("arguments", "message"), [
    (dict(task="multi", num_classes=3), "task must be one of"),
    (dict(task="multiclass"), "num_classes must be given but got None"),
])  # fmt: skip
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Accuracy(**arguments)


def test_arguments_are_given_once_and_checked() -> None:
    with pytest.raises(InputError, match="threshold must be given once"):
        Accuracy("binary", 0.5, threshold=0.5)
    with pytest.raises(InputError, match="takes 9 arguments by position but got 10"):
        Accuracy("binary", *range(9))
    with pytest.raises(InputError, match="task must be left out: that of MulticlassAccuracy follows from its name"):
        MulticlassAccuracy(task="multiclass", num_classes=3)
    with pytest.raises(InputTypeError, match="validate_args must be bool but got str"):
        Accuracy(3, validate_args="no")
    with pytest.raises(ValueError, match="Unexpected keyword arguments: `averag`"):
        MulticlassAccuracy(3, averag="macro")  # type: ignore[call-arg]


def test_attributes_are_there() -> None:
    metric = classification.F1Score(
        task="multilabel", num_labels=3, ignore_index=-1, threshold=0.3, validate_args=False
    )
    assert (metric.num_labels, metric.ignore_index, metric.threshold, metric.beta) == (3, -1, 0.3, 1.0)
    assert metric.validate_args and metric.multidim_average == "global"
