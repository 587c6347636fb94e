"""Documents by the C++ library: batches and rankings are those of torch, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from testing.parity import differences
from tests.fuzz import seeds
from valor_gpu import native, plans
from valor_gpu.errors import InputError
from valor_gpu.inputs.documents import DocumentRule
from valor_gpu.retrieval import RetrievalMAP, RetrievalNormalizedDCG, ranking
from valor_gpu.retrieval.documents import Documents
from valor_gpu.retrieval.plans import LEAST_NARROWED, narrowed

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="plans are native")

NAN = float("nan")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
TARGETS = (*INTS, torch.bool, *FLOATS)
LARGE = 150_000  # documents that several threads read
CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"ignore_index": 7},
    {"unjudged_index": -1},
    {"ignore_index": -1, "unjudged_index": 0},
    {"ignore_index": 300},
)


def drawn(seed: int, rows: int, dtypes: tuple[torch.dtype, ...], marks: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Scores, targets of which some are marks, and indexes."""
    generator = torch.Generator().manual_seed(seed)
    preds, target, indexes = dtypes
    scores = torch.randn(rows, generator=generator).to(preds)
    grades = torch.randint(0, 2, (rows,), generator=generator)
    for mark in marks:
        grades[torch.rand(rows, generator=generator) < 0.2] = mark
    return scores, grades.to(target), torch.randint(0, 100, (rows,), generator=generator).to(indexes)


def outcome(metric: Any, *batch: Any, **named: Any) -> Any:
    """The state after a batch, or the error."""
    try:
        metric.update(*batch, **named)
    except InputError as error:
        return str(error)
    return tuple(metric.state().tensors().values())


def both(kind: Any, choices: dict[str, Any], *batch: Any) -> tuple[Any, Any]:
    one = outcome(kind(**choices), *batch)
    with plans.checked_only():
        return one, outcome(kind(**choices), *batch)


@pytest.mark.parametrize("kind", [RetrievalMAP, RetrievalNormalizedDCG])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_states_and_errors_are_those_of_the_checked_path(kind: Any, choices: dict[str, Any]) -> None:
    marks = tuple(choices.values())
    for seed in seeds(2):
        for place, target in enumerate(TARGETS):
            dtypes = FLOATS[(seed + place) % 4], target, INTS[(seed + place) % 5]
            for rows in (1, 8, 700):
                batch = drawn(seed, rows, dtypes, marks)
                one, other = both(kind, choices, *batch)
                assert one == other if isinstance(one, str) else differences(one, other) == "", (dtypes, rows)


def test_plans_serve_dense_batches_however_they_are_named() -> None:
    metric: Any = RetrievalMAP(ignore_index=-1)
    preds, target, indexes = drawn(3, 8, (torch.float32, torch.int64, torch.int64), (-1,))
    step = metric.update.step
    for args, named in (
        ((preds, target, indexes), {}),
        ((preds, target), {"indexes": indexes}),
        ((), {"target": target, "indexes": indexes, "preds": preds}),
        ((preds.view(2, 4), target.view(2, 4), indexes.view(2, 4)), {}),
    ):
        found = step(metric.__dict__, args, named)
        assert found is not None and [name for name, _ in found.rows] == ["indexes", "preds", "target"]
    for args in ((preds[::2], target[::2], indexes[::2]), (preds[:0], target[:0], indexes[:0]), (preds, target, preds)):
        assert step(metric.__dict__, args, {}) is None
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        metric.update(preds, target, indexes, weight=preds)


@pytest.mark.parametrize("place", [0, LARGE // 2, LARGE - 1])
@pytest.mark.parametrize(
    ("side", "value", "message"),
    [(0, NAN, r"preds\[{}\] must not be NaN"), (1, -3.0, r"target\[{}\] must be a finite"), (1, NAN, r"target\[{}\]")],
)
def test_a_bad_value_anywhere_is_named_and_changes_nothing(place: int, side: int, value: float, message: str) -> None:
    metric = RetrievalNormalizedDCG(ignore_index=-1)
    batch = list(drawn(1, LARGE, (torch.float32, torch.float32, torch.int64), ()))
    batch[side][place] = value
    with pytest.raises(InputError, match=message.format(place)):
        metric.update(*batch)
    assert len(metric.state().preds) == 0
    batch[1][place] = -1  # an ignored document may have any score
    metric.update(*batch)
    assert len(metric.state().preds) == LARGE


@pytest.mark.smoke
def test_threads_change_no_bit() -> None:
    batch = drawn(2, LARGE, (torch.float16, torch.int32, torch.int32), (-1,))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(outcome(RetrievalMAP(unjudged_index=-1), *batch))
    finally:
        torch.set_num_threads(before)
    assert differences(*found) == ""


@pytest.mark.smoke
@pytest.mark.parametrize("rows", [LEAST_NARROWED, 5_000, LARGE])
def test_numbers_stay_the_same_in_narrow_types(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    preds = torch.randn(rows, generator=generator).double()
    target = torch.randint(-1, 128, (rows,), generator=generator).double()
    preds[0], target[-1] = float("-inf"), 127
    scores, grades = narrowed(preds, target)
    assert scores.dtype == torch.float32 and grades.dtype == torch.int8
    assert torch.equal(scores.double(), preds) and torch.equal(grades.double(), target)
    for wide in (0.1, 1e300, 5e-324):
        changed = preds.clone()
        changed[rows // 2] = wide
        assert narrowed(changed, target)[0] is changed
    for grade in (0.5, 128.0, -2.0, 1e300):
        changed = target.clone()
        changed[rows // 2] = grade
        assert narrowed(preds, changed)[1] is changed


def test_torch_narrows_where_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "update_function", lambda *_: None)
    preds, target = torch.arange(1000.0, dtype=torch.float64), torch.arange(1000.0, dtype=torch.float64) % 128
    scores, grades = narrowed(preds, target)
    assert scores.dtype == torch.float32 and grades.dtype == torch.int8
    assert torch.equal(scores.double(), preds) and torch.equal(grades.double(), target)
    for wide, large in ((preds + 0.1, target + 1), (preds / 3, target / 2)):
        scores, grades = narrowed(wide, large)
        assert scores is wide and grades is large


@pytest.mark.parametrize("level", [1.0, 1 + 1e-9, 2.5, 3.0])
def test_relevance_levels_of_narrow_and_wide_targets(level: float) -> None:
    target = torch.tensor([3.0, 1.0, 2.0, 0.0, -1.0], dtype=torch.float64).repeat(LEAST_NARROWED)
    rows = torch.zeros(len(target), dtype=torch.int64), torch.arange(len(target), dtype=torch.float64)
    found = ranking._ranked(Documents(*rows, target), DocumentRule(True, None, -1))
    wide = torch.where(target < 0, target, (target >= level).double())
    assert found.target.dtype == torch.int8 and torch.equal(found.with_relevance(level).target.double(), wide)
