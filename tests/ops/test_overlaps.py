"""Ranking and pairing off of overlaps: every kernel gives what the definition gives, and that holds every rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, library

from testing.examples_overlaps import SIZES, confuse_examples, random_overlaps, rank_examples
from tests.fuzz import seeds
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.overlaps import run as _overlaps_run
from valor_gpu.ops.overlaps.op import Overlaps, confuse_overlaps, rank_overlaps

Op = Callable[..., Any]
CUDA = {"rank_overlaps": _overlaps_run.rank_on_cuda, "confuse_overlaps": _overlaps_run.confuse_on_cuda}
EXAMPLES = [
    pytest.param(op, given, id=f"{op}-{name}")
    for op, examples in (("rank_overlaps", rank_examples(True)), ("confuse_overlaps", confuse_examples(True)))
    for name, given in examples
]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bits(columns: tuple[Tensor, ...]) -> list[Any]:
    return [(column.dtype, column.shape, column.view(torch.int64).tolist()) for column in columns]


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "given"), EXAMPLES)
def test_every_kernel_equals_the_definition(backend: str, name: str, given: tuple[Any, ...]) -> None:
    got = kernel(backend, name, CUDA[name])(*given)
    assert bits(got) == bits(_library.reference(name)(*given))
    assert int(got[-1]) == NO_ERROR


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", CUDA)
def test_random_tables(backend: str, name: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(int(n), int(m)) for n, m in torch.randint(0, 14, (12, 2), generator=generator)]
    share, ties, labels = (0.2, 0.5, 0.9)[seed % 3], (1, 2, 5, 1000)[seed % 4], (1, 2, 9)[seed % 3]
    columns = random_overlaps(sizes, seed, labels, share, ties).columns()
    for flag in (False, True):
        numbers = () if name == "rank_overlaps" else (torch.rand(3, generator=generator, dtype=torch.float64),)
        given = (*columns, *numbers, flag)
        assert bits(kernel(backend, name, CUDA[name])(*given)) == bits(_library.reference(name)(*given))


@pytest.mark.parametrize("seed", SIM_SEEDS)
@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("name", CUDA)
def test_the_order_of_lanes_changes_nothing(name: str, flag: bool, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = () if name == "rank_overlaps" else (torch.tensor([0.25, 0.5], dtype=torch.float64),)
    given = (*random_overlaps([*SIZES, (90, 35)], 12).columns(), *thresholds, flag)
    run = kernel("simulated", name, CUDA[name])
    expected = run(*given)
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated()
    assert bits(run(*given)) == bits(expected)


def test_threads_change_nothing() -> None:
    overlaps = random_overlaps([(40, 20)] * 300, 3)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            partners = confuse_overlaps(overlaps, [0.5, 1.0])
            found.append(bits((*rank_overlaps(overlaps), *rank_overlaps(overlaps, "doc"), partners)))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", CUDA)
def test_opcheck(name: str) -> None:
    numbers = () if name == "rank_overlaps" else (torch.tensor([0.5], dtype=torch.float64),)
    op = getattr(torch.ops.valor_gpu, name).default
    given = (*random_overlaps(SIZES[:5]).columns(), *numbers, False)
    library.opcheck(op, given, test_utils=("test_schema", "test_faketensor"))


# ------------------------------------------------------------------------------------------------------------ the rules


def one_datum(detections: list[tuple[int, float]], gt_labels: list[int], ious: list[dict[int, float]]) -> Overlaps:
    """Labels and scores of the detections of a datum, labels of its ground truths, and the IoUs of each detection."""
    pairs = [sorted(of_row.items(), key=lambda pair: (-pair[1], -pair[0])) for of_row in ious]
    labels, scores = zip(*detections)
    counts = torch.tensor([len(row) for row in pairs])
    return Overlaps(
        torch.tensor([[len(detections)], [len(gt_labels)]]), torch.tensor(labels),
        torch.tensor(scores, dtype=torch.float64), torch.tensor(gt_labels, dtype=torch.int64), counts,
        torch.tensor([gt for row in pairs for gt, _ in row], dtype=torch.int64),
        torch.tensor([iou for row in pairs for _, iou in row], dtype=torch.float64),
    )  # fmt: skip


RANKED: list[tuple[str, Overlaps, dict[str, list[float]]]] = [
    (
        "equal scores go by IoU",
        one_datum([(1, 0.9), (1, 0.9)], [1], [{0: 0.6}, {0: 0.8}]),
        {"best": [0, 0], "before": [0.8, 0.0]},
    ),
    (
        "equal scores and IoUs go as they came",
        one_datum([(1, 0.9), (1, 0.9)], [1], [{0: 0.6}, {0: 0.6}]),
        {"before": [0.0, 0.6]},
    ),
    (
        "of equal IoUs the earlier ground truth",
        one_datum([(1, 0.9)], [1, 1], [{0: 0.6, 1: 0.6}]),
        {"best": [0], "ious": [0.6], "others": [0.0]},
    ),
    (
        "a taken ground truth stays the best",
        one_datum([(1, 0.9), (1, 0.8)], [1, 1], [{0: 0.9}, {0: 0.7, 1: 0.6}]),
        {"best": [0, 0], "ious": [0.9, 0.7], "before": [0.0, 0.9]},
    ),
    (
        "a later one of a larger IoU finds it at higher thresholds",
        one_datum([(1, 0.9), (1, 0.8), (1, 0.7)], [1], [{0: 0.5}, {0: 0.9}, {0: 0.7}]),
        {"before": [0.0, 0.5, 0.9]},
    ),
    (
        "a score of 0 or less leaves everything to the next",
        one_datum([(1, 0.0), (1, -1.0), (1, -0.0)], [1], [{0: 0.9}, {0: 0.8}, {0: 0.9}]),
        {"best": [0, 0, 0], "before": [0.0, 0.0, 0.0]},
    ),
    (
        "another label is another one",
        one_datum([(1, 0.9), (2, 0.8), (3, 0.7)], [1, 2], [{0: 0.4, 1: 0.7}, {0: 0.6, 1: 0.3}, {0: 0.2, 1: 0.5}]),
        {"best": [0, 1, -1], "ious": [0.4, 0.3, 0.0], "others": [0.7, 0.6, 0.5], "before": [0.0, 0.0, 0.0]},
    ),
    (
        "without ground truths",
        one_datum([(1, 0.9)], [], [{}]),
        {"best": [-1], "ious": [0.0], "before": [0.0], "others": [0.0]},
    ),
]


@pytest.mark.parametrize(("overlaps", "expected"), [pytest.param(o, e, id=name) for name, o, e in RANKED])
def test_rules_of_ranking(overlaps: Overlaps, expected: dict[str, list[float]]) -> None:
    ranked = rank_overlaps(overlaps)._asdict()
    assert {name: ranked[name].tolist() for name in expected} == expected


def test_the_document_takes_free_ground_truths_by_score() -> None:
    overlaps = one_datum(
        [(1, 0.7), (1, 0.9), (1, 0.8), (2, 1.0)], [1, 1, 2],
        [{0: 0.9, 1: 0.2}, {0: 0.5, 1: 0.4, 2: 0.6}, {0: 0.8, 1: 0.1}, {0: 1.0}],
    )  # fmt: skip
    ranked = rank_overlaps(overlaps, "doc")
    assert ranked.best.tolist() == [-1, 0, 1, -1]
    assert ranked.ious.tolist() == [0.0, 0.5, 0.1, 0.0]
    assert ranked.before.tolist() == [0.0] * 4 and ranked.others.tolist() == [0.0, 0.6, 0.0, 1.0]


def test_datums_do_not_touch() -> None:
    overlaps = Overlaps(
        torch.tensor([[1, 0, 1], [1, 2, 1]]), torch.tensor([5, 5]), torch.tensor([0.5, 0.9]), torch.full((4,), 5),
        torch.tensor([1, 1]), torch.tensor([0, 3]), torch.tensor([0.6, 0.6], dtype=torch.float64),
    )  # fmt: skip
    assert rank_overlaps(overlaps).best.tolist() == [0, 3]
    assert rank_overlaps(overlaps).before.tolist() == [0.0, 0.0]
    assert confuse_overlaps(overlaps, [0.5]).tolist() == [[0, 3]]


CONFUSED: list[tuple[str, Overlaps, list[float], list[list[int]], list[list[int]]]] = [
    (
        "the larger score goes first whatever its IoU",
        one_datum([(1, 0.8), (2, 0.9)], [1], [{0: 0.9}, {0: 0.6}]),
        [0.5, 0.7],
        [[-1, 0], [0, -1]],
        [[-1, 0], [-1, -1]],
    ),
    (
        "equal scores go by IoU, then by ground truth, then by detection",
        one_datum([(1, 0.9), (1, 0.9), (1, 0.9)], [1, 1], [{1: 0.6}, {0: 0.6, 1: 0.6}, {0: 0.6, 1: 0.7}]),
        [0.5],
        [[-1, 0, 1]],
        [[-1, 0, 1]],
    ),
    (
        "an IoU of the threshold is enough, and the next free one is taken",
        one_datum([(1, 0.9), (2, 0.8)], [2, 1], [{0: 0.75}, {0: 0.9, 1: 0.5}]),
        [0.5, 0.75, 1.0],
        [[0, 1], [0, -1], [-1, -1]],
        [[0, 1], [0, -1], [-1, -1]],
    ),
    (
        "a score of 0 or less takes part",
        one_datum([(1, -0.5), (1, 0.0)], [1, 1], [{0: 0.9}, {0: 0.8, 1: 0.7}]),
        [0.5],
        [[-1, 0]],
        [[-1, 0]],
    ),
]


@pytest.mark.parametrize(
    ("overlaps", "thresholds", "kept", "dissolved"), [pytest.param(*row[1:], id=row[0]) for row in CONFUSED]
)
def test_rules_of_confusion(
    overlaps: Overlaps, thresholds: list[float], kept: list[list[int]], dissolved: list[list[int]]
) -> None:
    assert confuse_overlaps(overlaps, thresholds).tolist() == kept
    assert confuse_overlaps(overlaps, thresholds, dissolve=True).tolist() == dissolved


@pytest.mark.parametrize("seed", seeds(4))
def test_a_higher_score_leaves_a_prefix(seed: int) -> None:
    """Without the detections below a score the others keep their partners: one table serves every score."""
    overlaps = random_overlaps(SIZES, seed)
    everything, least = confuse_overlaps(overlaps, [0.25, 0.75]), 0.5
    kept = overlaps.scores >= least
    assert torch.equal(confuse_overlaps(overlaps.take(kept), [0.25, 0.75]), everything[:, kept])


@pytest.mark.parametrize("seed", seeds(4))
def test_the_order_of_datums_changes_nothing(seed: int) -> None:
    """A datum alone has the rows that it has among others."""
    overlaps = random_overlaps(SIZES, seed)
    datums, gt_datums = overlaps.datums()
    ranked, partners = rank_overlaps(overlaps), confuse_overlaps(overlaps, [0.5])
    for datum in range(len(SIZES)):
        alone = overlaps.take(datums=torch.arange(len(SIZES)) == datum)
        first = int((gt_datums < datum).sum())
        for got, whole in zip((*rank_overlaps(alone), confuse_overlaps(alone, [0.5])[0]), (*ranked, partners[0])):
            rows = whole[datums == datum]
            assert torch.equal(got, torch.where(rows < 0, rows, rows - first) if got.dtype == torch.int64 else rows)


# --------------------------------------------------------------------------------------------------------------- errors

BAD: list[tuple[str, list[Any], str]] = [
    ("sizes", [[3, -1], [1, 1]], r"sizes\[0, 0\] must lie between 0 and 2, the number of labels, but is 3"),
    ("sizes", [[1, 1], [3, -1]], r"sizes\[1, 1\] must lie between 0 and 3, the number of gt_labels, but is -1"),
    ("sizes", [[1, 1], [1, 1]], r"sizes\[1\] must sum to 3, the number of gt_labels, but sums to 2"),
    ("scores", [0.5, float("nan")], r"scores\[1\] must not be NaN"),
    ("counts", [-1, 4], r"counts\[0\] must lie between 0 and 3, the number of ious, but is -1"),
    ("counts", [2, 2], "counts must sum to 3, the number of ious, but sum to 4"),
    ("ground_truths", [0, 1, 2], r"ground_truths\[1\] .* of datum 0, like detection 0, which has those from 0 to 0"),
    ("ground_truths", [0, 0, 3], r"ground_truths\[2\] must be one of datum 1, like detection 1, .*2, but is 3"),
    ("ground_truths", [-1, 0, 2], r"ground_truths\[0\] must be one of datum 0, .* but is -1"),
    ("ious", [0.5, 0.0, 0.5], r"ious\[1\] must be above 0 and at most 1 but is 0.0"),
    ("ious", [0.5, 0.5, 1.0000001], r"ious\[2\] must be above 0 and at most 1 but is 1.0000001"),
    ("ious", [float("nan"), 0.5, 2.0], r"ious\[0\] must be above 0 and at most 1 but is nan"),
]  # fmt: skip


def good() -> Overlaps:
    return Overlaps(
        torch.tensor([[1, 1], [1, 2]]), torch.tensor([1, 2]), torch.tensor([0.5, 0.6], dtype=torch.float64),
        torch.tensor([1, 1, 2]), torch.tensor([2, 1]), torch.tensor([0, 0, 2]),
        torch.tensor([0.5, 0.4, 0.3], dtype=torch.float64),
    )  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "values", "message"), BAD)
def test_bad_values_are_named(backend: str, name: str, values: list[Any], message: str) -> None:
    overlaps = dataclasses.replace(good(), **{name: torch.tensor(values, dtype=getattr(good(), name).dtype)})
    with pytest.raises(InputError, match=message):
        rank_overlaps(overlaps)
    with pytest.raises(InputError, match=message):
        confuse_overlaps(overlaps, [0.5])
    for op, more in (("rank_overlaps", (True,)), ("confuse_overlaps", (torch.tensor([0.5]).double(), False))):
        given = (*overlaps.columns(), *more)
        assert int(kernel(backend, op, CUDA[op])(*given)[-1]) == int(_library.reference(op)(*given)[-1]) != NO_ERROR


def test_the_first_error_is_named() -> None:
    values = {"scores": torch.tensor([float("nan")] * 2).double(), "ious": torch.zeros(3).double()}
    with pytest.raises(InputError, match=r"scores\[0\] must not be NaN"):
        rank_overlaps(dataclasses.replace(good(), **values))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sizes", torch.zeros(2, dtype=torch.int64), r"sizes must have shape \[2, N\] but got \[2\]"),
        ("labels", torch.zeros(2), "labels must have dtype .* but got torch.float32"),
        ("scores", torch.zeros(3).double(), r"scores must have shape \[2\] but got \[3\]"),
        ("scores", torch.zeros(2, dtype=torch.int64), "scores must have dtype .* but got torch.int64"),
        ("counts", torch.zeros((2, 1), dtype=torch.int64), r"counts must have shape \[2\] but got \[2, 1\]"),
        ("ground_truths", torch.zeros(2, dtype=torch.int64), r"ground_truths must have shape \[3\] but got \[2\]"),
        ("ious", torch.zeros(3).to_sparse(), "ious must be a dense tensor but is torch.sparse_coo"),
        ("gt_labels", torch.zeros(3, dtype=torch.int64, device="meta"), "gt_labels must be on cpu like sizes but"),
    ],
)
def test_what_no_kernel_reads_is_rejected(name: str, value: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rank_overlaps(dataclasses.replace(good(), **{name: value}))


def test_choices_are_checked() -> None:
    with pytest.raises(InputError, match="matching must be one of 'valor', 'doc' but got 'coco'"):
        rank_overlaps(good(), "coco")
    for threshold in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(InputError, match=r"thresholds must be in \[5e-324, 1.0\] but got"):
            confuse_overlaps(good(), [0.5, threshold])
    with pytest.raises(InputTypeError, match="overlaps must be Overlaps but got tuple"):
        rank_overlaps(good().columns())  # type: ignore[arg-type]


def test_other_dtypes_are_read() -> None:
    overlaps = random_overlaps(SIZES, 4)
    narrow = Overlaps(*(c.float() if c.is_floating_point() else c.to(torch.int32) for c in overlaps.columns()))
    assert bits(rank_overlaps(narrow)) == bits(rank_overlaps(overlaps))
