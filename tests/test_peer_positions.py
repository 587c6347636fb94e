"""A position in a constructor means what it means in torchmetrics' class of the same name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

ABSENT = {"return_sentence_level_score"}
"""Arguments that some classes lack, the last of their classes: docs/torchmetrics.md has them."""
OTHERS = {"BERTScore": "it takes an encoder where torchmetrics loads a model by its name"}


def classes() -> list[tuple[str, str]]:
    found = []
    for package in ("detection", "segmentation", "text"):
        ours, theirs = (importlib.import_module(f"{root}.{package}") for root in ("valor_gpu", "torchmetrics"))
        found += [(package, name) for name in sorted({*ours.__all__} & {*dir(theirs)} - {*OTHERS})]
    return found


def positions(kind: Any) -> list[tuple[str, Any]]:
    parameters = inspect.signature(kind).parameters.items()
    return [(name, each.default) for name, each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize(("package", "name"), classes())
def test_positions_are_those_of_torchmetrics(package: str, name: str) -> None:
    ours, theirs = (
        positions(getattr(importlib.import_module(f"{root}.{package}"), name)) for root in ("valor_gpu", "torchmetrics")
    )
    wanted = [pair for pair in theirs if pair[0] not in ABSENT or pair in ours]
    assert theirs[: len(wanted)] == wanted
    assert ours[: len(wanted)] == wanted
