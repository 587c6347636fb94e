"""Every class that is also in torchmetrics gives what torchmetrics 1.9.0 gave, whatever release is installed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from testing.goldens import gzipped_json
from testing.torchmetrics_cases import Case, cases, inputs_of, value_of

GOLDEN = gzipped_json("torchmetrics_golden.json.gz")
ALL = cases()
OTHERS = dict.fromkeys(("BERTScore", "InfoLM"), "torchmetrics' downloads a model")


def shared(package: str) -> set[str]:
    """Public classes of both, without those of ``task=``, which make one of the others."""
    ours, theirs = (importlib.import_module(f"{root}.{package}") for root in ("valor_gpu", "torchmetrics"))
    names = {name for name in ours.__all__ if isinstance(getattr(theirs, name, None), type)}
    return {name for name in names if f"Binary{name}" not in names and f"Multiclass{name}" not in names} - {*OTHERS}


def test_the_file_says_what_made_it() -> None:
    assert GOLDEN["note"] == "made by tools/make_torchmetrics_goldens.py with torchmetrics 1.9.0"
    assert list(GOLDEN["cases"]) == [case.id for case in ALL]


@pytest.mark.parametrize("package", ["classification", "detection", "regression", "retrieval", "segmentation", "text"])
def test_every_shared_class_has_a_case(package: str) -> None:
    assert shared(package) == {case.name for case in ALL if case.package == package and case.name in shared(package)}


@pytest.mark.parametrize("case", ALL, ids=[case.id for case in ALL])
def test_numbers_are_those_of_torchmetrics(case: Case) -> None:
    golden = GOLDEN["cases"][case.id]
    assert inputs_of(case) == golden["inputs"], "not the input that torchmetrics got"
    kind: Any = getattr(importlib.import_module(f"valor_gpu.{case.package}"), case.name)
    ours, theirs = value_of(kind, case), golden["value"]
    assert [path for path, _ in ours] == [path for path, _ in theirs]
    for (path, mine), (_, value) in zip(ours, theirs):
        np.testing.assert_allclose(mine, value, rtol=2e-6, atol=1e-6, err_msg=path)
