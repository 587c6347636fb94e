"""``tools/first_difference.py`` names the stage at which a fault enters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tools.first_difference import main
from valor_gpu.coco import accumulation, match_layout, summarize

FILES = "examples/data/instances_val2014_100.json", "examples/data/instances_val2014_fakebbox100_results.json"
EQUAL = "equal to pycocotools to the last bit"


def _without_crowds(flags: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: flags(*given) & np.uint8(~match_layout.CROWD & 0xFF)


def _one_recall_off(grid: Callable[..., Any]) -> Callable[..., Any]:
    return lambda recalls: grid(recalls) * 0.5


def _half(mean: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: mean(*given) / 2


@pytest.mark.parametrize(
    ("module", "name", "fault", "first"),
    [
        (match_layout, "gt_flags", _without_crowds, "evalImgs: first image"),
        (accumulation, "_grid", _one_recall_off, "eval: precision"),
        (summarize, "line_mean", _half, "stats: lines [0, 1"),
    ],
)
def test_the_stage_of_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, module: Any, name: str, fault: Any, first: str
) -> None:
    main(*FILES)
    assert capsys.readouterr().out == f"kernels: {EQUAL}\ncell by cell: {EQUAL}\n"
    monkeypatch.setattr(module, name, fault(getattr(module, name)))
    main(*FILES)
    kernels, cells = capsys.readouterr().out.splitlines()
    assert kernels.startswith(f"kernels: {first}")
    assert (cells == f"cell by cell: {EQUAL}") == (name == "gt_flags")
