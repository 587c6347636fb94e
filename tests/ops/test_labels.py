"""Counts of hard labels: every kernel equals the definition by bytes, which equals scikit-learn and torchmetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix
from torch import Tensor
from torchmetrics.functional.classification import multiclass_stat_scores

from testing import examples_labels as made
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NAN_SCORE, NO_ERROR, Names, describe_value, raise_error
from valor_gpu.ops.labels import cuda as _labels_cuda
from valor_gpu.ops.labels import op as labels
from valor_gpu.ops.labels.op import PREDICTED, TRUE, TRUE_POSITIVES, count_labels, count_pairs, count_top

Run = Callable[..., Any]
EXAMPLES: dict[str, Callable[[bool], Iterator[tuple[str, Any]]]] = {
    "count_top": made.count_top_examples,
    "top_classes": made.top_examples,
    "count_labels": made.pair_examples,
    "count_pairs": made.pair_examples,
    "first_in_cells": made.cell_examples,
}


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Calls an op by name, as one backend computes it."""
    return lambda name, *args: kernel(request.param, name, getattr(_labels_cuda, name))(*args)


def simulate(name: str, *args: Any) -> Any:
    return kernel("simulated", name, getattr(_labels_cuda, name))(*args)


def check(run: Run, name: str, *args: Any) -> Any:
    """The outputs of an op, which are those of its definition by bytes."""
    got, expected = run(name, *args), _library.reference(name)(*args)
    many = isinstance(expected, tuple)
    assert differences(tuple(got) if many else (got,), tuple(expected) if many else (expected,)) == ""
    return got


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(run: Run, name: str) -> None:
    for _, args in EXAMPLES[name](True):
        check(run, name, *args)


@pytest.mark.smoke
@pytest.mark.parametrize("weighted", [False, True])
def test_small_cases(run: Run, weighted: bool) -> None:
    rng = random(7)
    for classes in (1, 3, 40):
        scores, target = made.scores_of(rng, 70, classes), made.labels_of(rng, 70, classes)
        weight = made.weights_of(rng, 70) if weighted else None
        check(run, "count_top", scores, target, min(2, classes), classes, weight)
        preds, _ = check(run, "top_classes", scores, 1)
        check(run, "count_labels", preds[:, 0], target, classes, classes, weight)
        check(run, "count_pairs", preds[:, 0], target, classes, classes, weight)
        check(run, "top_classes", scores, classes)
        check(run, "first_in_cells", target, classes, 3)


@pytest.mark.parametrize("dtype", made.FLOATS)
@pytest.mark.parametrize("classes", [5, 24, 25, 64, 65, 130])
def test_ties_zeros_and_infinities(run: Run, dtype: torch.dtype, classes: int) -> None:
    rng = random(classes)
    scores, target = made.scores_of(rng, 45, classes, dtype), made.labels_of(rng, 45, classes)
    for k in (1, 3):
        check(run, "count_top", scores, target, k, classes, None)
        check(run, "top_classes", scores, k)


def test_lower_class_wins_a_tie(run: Run) -> None:
    scores = torch.tensor([[-0.0, 0.0, -1.0], [0.0, -0.0, 0.0], [-torch.inf] * 3])
    assert run("top_classes", scores, 3)[0].tolist() == [[0, 1, 2]] * 3
    counts, error = run("count_top", scores, torch.tensor([1, 2, 0]), 2, None, None)
    assert counts.tolist() == [[1, 1, 0], [2, 1, 0], [1, 1, 1]] and int(error) == NO_ERROR


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_neighbouring_scores_differ(run: Run, dtype: torch.dtype) -> None:
    one = torch.ones(3, dtype=dtype)
    above = torch.nextafter(one.double() if dtype == torch.float64 else one, torch.full_like(one, 2))
    scores = torch.cat([one, above[:1], one])[None]
    assert run("top_classes", scores, 2)[0].tolist() == [[3, 0]]
    assert run("top_classes", -scores, 2)[0].tolist() == [[0, 1]]


def test_other_memory_layouts(run: Run) -> None:
    rng = random(2)
    scores, target = made.scores_of(rng, 6, 60).T, made.labels_of(rng, 120, 6)[::2]
    weight, preds = made.weights_of(rng, 180)[::3], made.labels_of(rng, 120, 5)[1::2]
    check(run, "count_top", scores, target, 2, 6, weight)
    check(run, "top_classes", scores, 3)
    check(run, "count_labels", preds, target, 6, 6, weight)
    check(run, "count_pairs", preds, target, 6, 6, weight)
    check(run, "first_in_cells", target, 5, 2)


def test_many_largest(run: Run) -> None:
    scores = made.scores_of(random(3), 9, 150)
    for k in (32, 33, 150):
        check(run, "top_classes", scores, k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_ranks_beyond_16_bits(run: Run, dtype: torch.dtype, last: bool) -> None:
    """The target comes behind 65,536 others, which is 0 in the width of its score."""
    classes = (1 << 16) + 1
    true_class = classes - 1 if last else 0
    scores = torch.ones(2, classes, dtype=dtype)
    scores[0, true_class] = 0
    counts, _ = check(run, "count_top", scores, torch.tensor([true_class, 1]), 2, None, None)
    assert counts[TRUE_POSITIVES].sum() == 1 and counts[TRUE_POSITIVES, 1] == 1


def test_weights_of_several_blocks(run: Run) -> None:
    rng = random(8)
    rows = 3000
    pairs = made.labels_of(rng, rows, 1), made.labels_of(rng, rows, 2)
    weight = made.weights_of(rng, rows)
    counts, _ = check(run, "count_labels", *pairs, 2, 2, weight)
    check(run, "count_pairs", *pairs, 2, 2, weight)
    used = pairs[1] < 2
    assert counts[TRUE].sum() == pytest.approx(float(weight[used].sum()), rel=1e-12)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_cuda_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    rng = random(int(seed))
    scores, target = made.scores_of(rng, 90, 20), made.labels_of(rng, 90, 20)
    for weight in (None, made.weights_of(rng, 90)):
        check(simulate, "count_top", scores, target, 2, 20, weight)
        check(simulate, "count_pairs", target, target, 20, 20, weight)
    check(simulate, "top_classes", scores, 3)
    check(simulate, "first_in_cells", target, 20, 3)


def test_threads_change_no_bit() -> None:
    rng = random(9)
    scores, target = made.scores_of(rng, 60_000, 12), made.labels_of(rng, 60_000, 12)
    weight, before = made.weights_of(rng, 60_000), torch.get_num_threads()
    found = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        found.append(count_top(scores, target, 2, ignore_index=12, weight=weight).counts)
        found.append(count_top(scores, target, 2, ignore_index=12).counts.double())
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(found, found[2:]))


def test_large_tables_are_shared_between_threads() -> None:
    rng = random(10)
    preds, target = (torch.from_numpy(rng.integers(0, 300, 40_000)) for _ in range(2))
    assert torch.equal(
        count_pairs(preds, target, 300).matrix, torch.bincount(target * 300 + preds, minlength=90_000).view(300, 300)
    )


# -------------------------------------------------------------------------------------------------------- definitions


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_equal_scikit_learn(weighted: bool) -> None:
    rng = random(11)
    preds, target = rng.integers(0, 6, (2, 500))
    weight = rng.random(500) if weighted else None
    expected = confusion_matrix(target, preds, labels=range(7), sample_weight=weight)
    given = None if weight is None else torch.from_numpy(weight)
    tensors = torch.from_numpy(preds), torch.from_numpy(target)
    matrix = count_pairs(*tensors, 7, weight=given).matrix
    np.testing.assert_allclose(matrix.numpy(), expected, rtol=1e-13)
    counts = count_labels(*tensors, 7, weight=given).counts
    margins = np.stack([np.diag(expected), expected.sum(0), expected.sum(1)])
    np.testing.assert_allclose(counts.numpy(), margins, rtol=1e-13)


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("ignore", [None, -1])
def test_top_k_is_the_rule_of_torchmetrics(seed: int, ignore: int | None) -> None:
    rng = random(seed)
    classes, rows, k = int(rng.integers(2, 9)), int(rng.integers(1, 60)), int(rng.integers(2, 5))
    k = min(k, classes)
    scores = torch.from_numpy(rng.permuted(np.tile(np.arange(classes) / classes, (rows, 1)), axis=1))  # no ties
    target = torch.from_numpy(rng.integers(0, classes, rows))
    if ignore is not None:
        target[torch.from_numpy(rng.random(rows) < 0.2)] = ignore
    scored = multiclass_stat_scores(scores, target.clone(), classes, average="none", top_k=k, ignore_index=ignore)
    tp, fp, tn, fn, support = scored.T
    counts = count_top(scores, target, k, ignore_index=ignore).counts
    ours = counts[TRUE_POSITIVES], counts[PREDICTED] - counts[TRUE_POSITIVES], counts[TRUE]
    assert all(torch.equal(a, b) for a, b in zip(ours, (tp, fp, support)))
    assert torch.equal(fn, counts[TRUE] - counts[TRUE_POSITIVES]) and int(tn.min()) >= 0


def test_largest_is_that_of_numpy(run: Run) -> None:
    scores = torch.from_numpy(random(12).random((90, 70), np.float32))
    classes, _ = run("top_classes", scores, 1)
    assert classes[:, 0].tolist() == scores.numpy().argmax(1).tolist()


def test_first_in_cells_of_lists(run: Run) -> None:
    cells = random(13).integers(-2, 12, 500)
    found = run("first_in_cells", torch.from_numpy(cells), 10, 4)
    for cell, rows in enumerate(found.tolist()):
        first = np.flatnonzero(cells == cell)[:4].tolist()
        assert rows == first + [-1] * (4 - len(first))


# ------------------------------------------------------------------------------------------------------ what is wrong


def test_first_error_is_reported(run: Run) -> None:
    scores = torch.rand(50, 30)
    target = torch.randint(0, 30, (50,))
    scores[20, 7] = scores[21, 0] = torch.nan
    names = Names(classes=30)
    assert (
        describe_value(int(run("count_top", scores, target, 1, None, None)[1]), names) == "preds[20, 7] must not be NaN"
    )
    classes, error = run("top_classes", scores, 2)
    assert describe_value(int(error), names) == "preds[20, 7] must not be NaN"
    assert (classes[20:22] == -1).all() and (classes[:20] >= 0).all()
    target[19] = 30
    error = run("count_top", scores, target, 1, None, None)[1]
    assert describe_value(int(error), names) == "target[19] must be a class index from 0 to 29"
    weight = torch.ones(50, dtype=torch.float64)
    for row, value in ((18, -1.0), (17, torch.inf), (16, torch.nan)):
        weight[row] = value
        error = run("count_top", scores, target, 1, None, weight)[1]
        assert describe_value(int(error), names) == f"sample_weight[{row}] must be from 0 to 1e60"
    preds = target.clone()
    preds[3], preds[4] = 30, -1
    error = run("count_pairs", preds, target, 30, None, None)[1]
    assert describe_value(int(error), names) == "preds[3] must be a class index from 0 to 29"


def test_rows_with_an_error_count_nowhere(run: Run) -> None:
    scores = torch.eye(5)
    scores[2, 4] = -torch.nan
    counts, _ = check(run, "count_top", scores, torch.tensor([0, 5, 2, 3, -1]), 1, None, None)
    assert counts.tolist() == [[1, 0, 0, 1, 0]] * 3


def test_ignored_rows_may_hold_anything(run: Run) -> None:
    scores, target = torch.full((3, 2), torch.nan), torch.tensor([7, 7, 7])
    weight = torch.full((3,), torch.nan, dtype=torch.float64)
    counts, error = run("count_top", scores, target, 1, 7, weight)
    assert int(error) == NO_ERROR and (counts == 0).all()
    assert int(run("count_labels", target, target, 2, 7, weight)[1]) == NO_ERROR


def test_messages() -> None:
    word = (7 << 32 | 2) << 4
    assert describe_value(word | 1, Names(9, per_element=True)) == "target[7, 2] must be 0 or 1"
    assert describe_value(word | NAN_SCORE, Names(1, scores="probs")) == "probs[7] must not be NaN"
    assert describe_value((((1 << 27) - 1) << 36) | 2, Names(1)) == "preds[134217727 or later] must not be NaN"
    assert describe_value(word | 9, Names(3)) == "preds[7] failed with code 9"
    raise_error(NO_ERROR, lambda code: describe_value(code, Names(3)))
    with pytest.raises(InputError, match=r"target\[7\] must be a class index from 0 to 2"):
        raise_error(word | 1, lambda code: describe_value(code, Names(3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, y: count_top(s[0], y), r"scores must have shape \[N, N\] but got \[3\]"),
        (lambda s, y: count_top(s[:, :0], y), r"scores must have at least one column but has shape \[2, 0\]"),
        (lambda s, y: count_top(s.long(), y), "scores must have dtype torch.float16"),
        (lambda s, y: count_top(s, y[:1]), r"target must have shape \[2\] but got \[1\]"),
        (lambda s, y: count_top(s, y.float()), "target must have dtype torch.int8"),
        (lambda s, y: count_top(s, y.to("meta")), "target must be on cpu like scores but is on meta"),
        (lambda s, y: count_top(s, y, 4), "k must lie between 1 and the 3 columns of scores but is 4"),
        (lambda s, y: count_top(s, y, weight=torch.ones(2)), "weight must have dtype torch.float64"),
        (lambda s, y: labels.top_classes(s, 0), "k must lie between 1 and the 3 columns of scores but is 0"),
        (lambda s, y: count_labels(s[:, 0], y, 2), "preds must have dtype torch.int8"),
        (lambda s, y: count_pairs(y, y[:1], 2), r"target must have shape \[2\] but got \[1\]"),
        (lambda s, y: count_pairs(y, y, 0), "num_classes must be at least 1 but is 0"),
        (lambda s, y: labels.first_in_cells(y, 2, -1), "k must be at least 0 but is -1"),
    ],
)
def test_errors_name_the_argument(call: Callable[[Tensor, Tensor], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(torch.rand(2, 3), torch.tensor([0, 1]))


def test_opcheck() -> None:
    rng = random(14)
    scores, target, weight = made.scores_of(rng, 9, 4), made.labels_of(rng, 9, 3), made.weights_of(rng, 9)
    ops = torch.ops.valor_gpu
    for given in (None, weight):
        torch.library.opcheck(ops.count_top.default, (scores, target, 2, 1, given))
        torch.library.opcheck(ops.count_labels.default, (target, target, 4, None, given))
        torch.library.opcheck(ops.count_pairs.default, (target, target, 4, 0, given))
    torch.library.opcheck(ops.top_classes.default, (scores, 3))
    torch.library.opcheck(ops.first_in_cells.default, (target, 4, 2))
