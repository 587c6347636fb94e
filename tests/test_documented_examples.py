"""The examples in torchmetrics' docstrings run with ``valor_gpu`` for ``torchmetrics``, and give the same.

The programs are read from the installed torchmetrics, so that its next version brings its own.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import re
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

PAIRS = {
    "torchmetrics.classification": "valor_gpu.classification",
    "torchmetrics.functional.classification": "valor_gpu.functional",
    "torchmetrics.detection": "valor_gpu.detection",
    "torchmetrics.functional.detection": "valor_gpu.functional",
    "torchmetrics.retrieval": "valor_gpu.retrieval",
    "torchmetrics.functional.retrieval": "valor_gpu.functional",
    "torchmetrics.segmentation": "valor_gpu.segmentation",
    "torchmetrics.functional.segmentation": "valor_gpu.functional",
    "torchmetrics.text": "valor_gpu.text",
    "torchmetrics.functional.text": "valor_gpu.functional",
    "torchmetrics.wrappers": "valor_gpu.wrappers",
    "torchmetrics.aggregation": "valor_gpu.aggregation",
}
"""Package of torchmetrics to the one that has its names here."""

ABSENT = "of a class without positives a number does not exist: NaN, left out of means; torchmetrics has 0 or 1"
NO_CURVE = "a class without positives has thresholds [] as those of torchmetrics' class, whose function has [1]"
NO_RATE = "a group without positives has no true positive rate and is left out; that of torchmetrics is 0"
GRID = "a mask IoU of exactly 0.6 reaches the threshold 0.6 as in pycocotools; torchmetrics' is a float32 above it"
AS_SACREBLEU = "as in sacreBLEU; torchmetrics adds a small number where n-grams have no match"
DEPARTURES = {
    "BinaryFairness": NO_RATE,
    "equal_opportunity": NO_RATE,
    "CHRFScore": AS_SACREBLEU,
    "chrf_score": AS_SACREBLEU,
    "MeanAveragePrecision": GRID,
    "mean_average_precision": GRID,
    **dict.fromkeys(("MulticlassAUROC", "multiclass_auroc", "MulticlassAveragePrecision",
                     "multiclass_average_precision",
                     "MulticlassEER", "multiclass_eer", "MulticlassLogAUC", "multiclass_logauc",
                     "MulticlassROC", "multiclass_roc",
                     "MulticlassPrecisionAtFixedRecall", "multiclass_precision_at_fixed_recall",
                     "MulticlassRecallAtFixedPrecision", "multiclass_recall_at_fixed_precision",
                     "MulticlassSensitivityAtSpecificity", "multiclass_sensitivity_at_specificity",
                     "MulticlassSpecificityAtSensitivity", "multiclass_specificity_at_sensitivity"), ABSENT),
    **dict.fromkeys(("multiclass_precision_recall_curve", "precision_recall_curve"), NO_CURVE),
}  # fmt: skip
"""Programs with other numbers, and why: docs/torchmetrics.md has them."""

DOWNLOADS = ("BERTScore", "bert_score", "InfoLM", "infolm", "ROUGEScore", "rouge_score", "FeatureShare")
"""Programs that load a model with torchmetrics."""


def public(package: str) -> list[str]:
    module = importlib.import_module(package)
    return [name for name in getattr(module, "__all__", dir(module)) if callable(getattr(module, name, None))]


def programs() -> list[tuple[str, str]]:
    """(package, name) of every documented name that this package has."""
    return [
        (package, name) for package, ours in PAIRS.items() for name in public(package)
        if name in importlib.import_module(ours).__all__ and name not in DOWNLOADS and examples(package, name)
    ]  # fmt: skip


def examples(package: str, name: str) -> list[str]:
    """The statements of a docstring, without pictures."""
    text = inspect.getdoc(getattr(importlib.import_module(package), name)) or ""
    sources = [example.source for example in doctest.DocTestParser().get_examples(text)]
    return [source for source in sources if "plot" not in source and "fig_" not in source]


OTHER_TASKS = r"\.(?:regression|image)\b"
THEIRS = rf"(?m)^(from|import) torchmetrics\b(?!{OTHER_TASKS})"
"""An import of what is here too."""


def changed(source: str) -> str:
    """``source`` with valor_gpu for torchmetrics in every import, but of packages that torchmetrics alone has."""
    return re.sub(THEIRS, r"\1 valor_gpu", source)


def shown(sources: list[str], package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the statements show and print. Some examples count on names that the module of the docstring has."""
    values: list[Any] = []
    printed = io.StringIO()
    names = {"torch": torch, "tensor": torch.tensor, name: getattr(importlib.import_module(package), name)}
    torch.manual_seed(0)
    with monkeypatch.context() as patch, warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")
        patch.setattr(sys, "displayhook", lambda value: values.append(value) if value is not None else None)
        for source in sources:
            exec(compile(source, f"{package}.{name}", "single"), names)
    return [*values, printed.getvalue()] if printed.getvalue() else values


def names_in(printed: str) -> list[str]:
    return re.findall(r"'(\w+)'", printed)


def compare(mine: Any, theirs: Any, absent: bool) -> None:
    """``absent``: where ours is NaN, and of means, theirs may be another number."""
    if isinstance(theirs, dict):
        if absent and mine.keys() != theirs.keys():
            return compare_groups(mine, theirs)
        assert mine.keys() == theirs.keys()
        mine, theirs = list(mine.values()), list(theirs.values())
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            compare(one, other, absent)
        return
    if not isinstance(theirs, Tensor):
        assert type(mine) is type(theirs)
        assert names_in(mine) == names_in(theirs) if absent else mine == theirs
        return
    assert mine.numel() == theirs.numel() and (absent or mine.shape == theirs.shape)
    # Classes of one task keep float64, so that thresholds and points of curves of float32 scores are float64; counts
    # are int64.
    assert mine.dtype in (theirs.dtype, torch.float64 if theirs.is_floating_point() else torch.int64)
    if absent and mine.ndim == 0:
        return
    other = torch.where(mine.isnan(), torch.nan, theirs) if absent else theirs
    torch.testing.assert_close(mine, other.reshape(mine.shape), atol=1e-5, rtol=1e-5, equal_nan=True, check_dtype=False)


def compare_groups(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Of ``EO_0_1``, a criterion with its two groups, other groups may have the extreme rates."""
    assert [key.split("_")[0] for key in mine] == [key.split("_")[0] for key in theirs]
    for key in mine.keys() & theirs.keys():
        compare(mine[key], theirs[key], absent=False)


@pytest.mark.parametrize(("package", "name"), programs())
def test_examples_give_what_they_give_with_torchmetrics(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = examples(package, name)
    theirs = shown(sources, package, name, monkeypatch)
    mine = shown(list(map(changed, sources)), PAIRS[package], name, monkeypatch)
    assert len(mine) == len(theirs) > 0 and not re.search(THEIRS, "".join(map(changed, sources)))
    if name not in DEPARTURES:
        return compare(mine, theirs, absent=False)
    with pytest.raises(AssertionError):  # else the table is out of date
        compare(mine, theirs, absent=False)
    compare(mine, theirs, absent=True)
    return None


def test_most_names_have_an_example() -> None:
    assert len(programs()) >= 230
    assert {name for _, name in programs()} >= DEPARTURES.keys()
