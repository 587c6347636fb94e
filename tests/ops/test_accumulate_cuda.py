"""Accumulation on CUDA: under the simulator and on a device, equal to the CPU functions by bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from tests.fuzz import seeds
from tests.native import sim
from tests.native.sim import simulated_kernel
from tests.ops.backends import BACKENDS, SIM_SEEDS
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate import cpu, run
from valor_gpu.ops.accumulate import cuda as ours
from valor_gpu.ops.accumulate.types import AccumulateChoices, Accumulated, Curves, Pick, RecordShape

Tables = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]
Accumulate = Callable[..., Accumulated]

SHAPE = RecordShape(3, 2, 2)
PICKS = (Pick("precision", 0, -1, range(3)), Pick("recall", 1, 0, (2,)), Pick("precision", 1, -1, (0,)))
CHOICES = AccumulateChoices(SHAPE, np.linspace(0, 1, 11), PICKS)
ODD_SCORES = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 0.5, 1e-45, -1e-300])


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "cpu"])
def accumulate(request: pytest.FixtureRequest) -> Accumulate:
    run.classes_seen.clear()
    if request.param == "simulated":
        return simulated_kernel(ours.accumulate)
    return lambda *arguments: ours.accumulate(*(x.cuda() if torch.is_tensor(x) else x for x in arguments))


FROM_AND_TO_NUMPY = ("aten.detach.default", "aten.lift_fresh.default")


class Operations(TorchDispatchMode):
    """Names of the operations of torch within it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.fill_.Scalar:  # how tests set new memory
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


# ------------------------------------------------------------------------------------------------------------ the CPU


def kept_images(images: NDArray[np.int64], by_key: bool) -> NDArray[np.int64]:
    """Every image once: the first of each id."""
    named: set[int] = set()
    kept = [i for i, row in enumerate(images.tolist()) if not (row[1] and (row[0] in named or named.add(row[0])))]  # type: ignore[func-returns-value]
    rows = np.array(kept, np.int64)
    return rows[np.lexsort((images[rows, 0], images[rows, 1]))] if by_key else rows


def rows_of(images: NDArray[np.int64], kept: NDArray[np.int64], column: int) -> NDArray[np.int64]:
    """The rows of the kept images, one after another."""
    ends = np.cumsum(images[:, column])
    return np.concatenate([np.arange(ends[i] - images[i, column], ends[i]) for i in kept] or [np.empty(0, np.int64)])


def expected(tables: Tables, choices: AccumulateChoices) -> dict[str, Any]:
    detections, ground_truths, images = tables
    kept = kept_images(images, choices.by_key) if choices.images is None else choices.images
    rows, true = detections[rows_of(images, kept, 4)], ground_truths[rows_of(images, kept, 5)]
    counts = cpu.label_counts(rows, true, choices.shape.areas)
    labels = counts.labels if choices.labels is None else choices.labels
    classes = labels[:1] if choices.agnostic else labels
    starts = np.cumsum(images[:, 4]) - images[:, 4]
    ordered = cpu.order_records(
        detections, starts[kept], images[kept, 4], classes, choices.shape.limits, choices.agnostic
    )
    positives = cpu.count_ground_truths(true, classes, choices.shape.areas, choices.agnostic)
    per_order = [
        cpu.precision_recall(
            detections, ordered, positives, choices.recall_thresholds, choices.shape, choices.full, ties
        )
        for ties in choices.ties
    ]
    negative = images[kept, 6].copy().view(np.int32).reshape(-1, 2).sum(0)
    reach = images[kept, 7].copy().view(np.float32).reshape(-1, 2).max(0, initial=0)
    totals = (len(kept), len(images) - len(kept), *counts.totals, len(ordered.order), *negative, *reach)
    return {
        "labels": labels,
        "positives": positives,
        "order": ordered.order,
        "offsets": ordered.offsets,
        **per_order[0]._asdict(),
        "means": np.stack([cpu.present_means(curves, choices.picks) for curves in per_order]),
        "totals": np.array(totals, np.float64),
    }


def check(accumulate: Accumulate, tables: Tables, choices: AccumulateChoices = CHOICES) -> Accumulated:
    found = accumulate(*map(torch.from_numpy, tables), choices, kept_images)
    arrays = {
        "labels": found.labels, "positives": found.positives, "order": found.ordered.order,
        "offsets": found.ordered.offsets, **found.curves._asdict(), "means": found.means,
        "totals": torch.tensor(found.totals, dtype=torch.float64),
    }  # fmt: skip
    for name, wanted in expected(tables, choices).items():
        got = arrays[name].cpu().numpy()
        assert got.shape == wanted.shape and got.tobytes() == wanted.tobytes(), (name, got, wanted)
    return found


# ------------------------------------------------------------------------------------------------------------- tables


def tables_of(
    images: int, labels: list[int], seed: int = 0, shape: RecordShape = SHAPE, wide: bool = False, most: int = 30
) -> Tables:
    """Random tables full of ties: every fifth row is padding, a third of the images has no id."""
    rng = np.random.default_rng(seed)
    field = (shape.settings + 7) // 8
    counts = rng.integers(0, most, (images, 2)) * (rng.random((images, 2)) < 0.9)
    total, true = counts.sum(0).tolist()
    rows = rng.integers(0, 256, (total, 13 + 2 * field), np.uint8)
    scores = np.round(rng.random(total), int(rng.integers(1, 4)))
    scores = scores if wide else scores.astype(np.float32).astype(np.float64)
    rows[:, :8] = scores.view(np.uint8).reshape(-1, 8)
    names = np.array(labels, np.int32)
    rows[:, 8:12] = rng.choice(names, total).view(np.uint8).reshape(-1, 4)
    rows[:, 12] = np.where(rng.random(total) < 0.2, 255, rng.integers(0, shape.limits + 1, total))
    ground_truths = rng.integers(0, 256, (true, 4 + (shape.areas + 2 + 7) // 8), np.uint8)
    ground_truths[:, :4] = rng.choice(names, true).view(np.uint8).reshape(-1, 4)
    ground_truths[rng.random(true) < 0.2, 4:] = 0
    table = rng.integers(-(2**62), 2**62, (images, 8))
    table[:, 1] = rng.random(images) < 0.67
    table[:, 4:6] = counts
    table[:, 6] = rng.integers(0, 5, (images, 2), np.int32).view(np.int64)[:, 0]
    table[:, 7] = rng.random((images, 2), np.float32).view(np.int64)[:, 0]
    return rows, ground_truths, table


def with_scores(tables: Tables, scores: NDArray[np.float64]) -> Tables:
    rows = tables[0].copy()
    rows[:, :8] = scores[np.arange(len(rows)) % len(scores)].view(np.uint8).reshape(-1, 8)
    return rows, *tables[1:]


HUGE = [-(2**31), -7, -1, 0, 3, 65535, 65536, 2**31 - 1]


@pytest.mark.parametrize("images", [1, pytest.param(3, marks=pytest.mark.smoke), 40])
@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("agnostic", [True, False])
def test_equals_the_cpu(accumulate: Accumulate, agnostic: bool, full: bool, by_key: bool, images: int) -> None:
    choices = replace(CHOICES, agnostic=agnostic, full=full, by_key=by_key)
    check(accumulate, tables_of(images, HUGE, images), choices)


@pytest.mark.parametrize("seed", seeds(4))
def test_random_tables(accumulate: Accumulate, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = RecordShape(int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(1, 4)))
    picks = tuple(Pick(name, -1, 0, range(shape.thresholds)) for name in ("precision", "recall"))
    flags = {name: bool(rng.random() < 0.5) for name in ("by_key", "agnostic", "full")}
    choices = AccumulateChoices(shape, np.linspace(0, 1, 101), picks, ties=("lowest", "given"), **flags)
    labels = rng.integers(-5, 5, int(rng.integers(1, 20))).tolist()
    check(accumulate, tables_of(int(rng.integers(1, 90)), labels, seed, shape, wide=bool(rng.random() < 0.3)), choices)


@pytest.mark.parametrize("wide", [False, True])
def test_the_order_of_threads_changes_nothing(
    accumulate: Accumulate, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    choices = replace(CHOICES, ties=("given", "highest"))
    for seed in SIM_SEEDS:
        monkeypatch.setenv("VALOR_SIM_SEED", seed)
        check(accumulate, tables_of(60, HUGE, int(seed), wide=wide), choices)


@pytest.mark.parametrize("images", [4200, pytest.param(8200, marks=pytest.mark.slow)])
def test_many_images(accumulate: Accumulate, images: int) -> None:
    """Strips of images that are merged at once, by 8 threads each, and twice, by 4; so are detections."""
    tables = tables_of(images, [4, 2], 5, most=6)
    assert len(tables[0]) > 32 * 256
    check(accumulate, tables)


@pytest.mark.parametrize("seed", SIM_SEEDS[:2])
def test_many_detections(accumulate: Accumulate, monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    """Too many to be merged: CUB sorts them."""
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    tables = tables_of(900, HUGE, 5, RecordShape(1, 1, 1), most=350)
    assert len(tables[0]) > 1 << 17
    choices = AccumulateChoices(RecordShape(1, 1, 1), np.linspace(0, 1, 11))
    check(accumulate, tables, choices)


@pytest.mark.parametrize("images", [0, 2])
@pytest.mark.parametrize("agnostic", [True, False])
def test_no_rows(accumulate: Accumulate, agnostic: bool, images: int) -> None:
    rows, ground_truths, table = tables_of(images, [1], 1)
    table[:, 4:6] = 0
    found = check(accumulate, (rows[:0], ground_truths[:0], table), replace(CHOICES, agnostic=agnostic))
    assert len(found.labels) == 0 and found.means.isnan().all()


def test_one_side_only(accumulate: Accumulate) -> None:
    rows, ground_truths, table = tables_of(9, [1, 2], 1)
    table[:, 4] = 0
    check(accumulate, (rows[:0], ground_truths, table))
    rows, ground_truths, table = tables_of(9, [1, 2], 1)
    table[:, 5] = 0
    check(accumulate, (rows, ground_truths[:0], table))


def test_padding_only(accumulate: Accumulate) -> None:
    rows, ground_truths, table = tables_of(3, [1, 2], 2)
    rows[:, 12], ground_truths[:, 4:] = 255, 0
    assert check(accumulate, (rows, ground_truths, table)).totals.detections == 0


@pytest.mark.smoke
def test_odd_scores(accumulate: Accumulate) -> None:
    check(accumulate, with_scores(tables_of(20, [1, 2], 3), ODD_SCORES))


def test_only_scores_that_count_are_asked_for_their_width(accumulate: Accumulate, runs: list[ours.Guess]) -> None:
    rows, *rest = tables_of(5, [1], 3)
    rows[rows[:, 12] >= SHAPE.limits, :8] = np.array([0.1]).view(np.uint8)
    check(accumulate, (rows, *rest))
    assert [guess.wide for guess in runs] == [False]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[ours.Guess]:
    """The guess of every run from here on."""
    guesses: list[ours.Guess] = []
    enqueue = ours.enqueue

    def noting(records: Any, choices: Any, guess: ours.Guess, *rest: Any) -> ours.Enqueued:
        guesses.append(guess)
        return enqueue(records, choices, guess, *rest)

    monkeypatch.setattr(ours, "enqueue", noting)
    return guesses


def test_float64_scores_take_a_second_run(accumulate: Accumulate, runs: list[ours.Guess]) -> None:
    check(accumulate, tables_of(30, [1, 2, 3], 4, wide=True))
    assert [guess.wide for guess in runs] == [False, True]


@pytest.mark.parametrize("full", [False, True])
def test_more_classes_than_guessed(accumulate: Accumulate, runs: list[ours.Guess], full: bool) -> None:
    tables = tables_of(60, list(range(-300, 900, 3)), 6)
    found = check(accumulate, tables, replace(CHOICES, full=full))
    assert len(found.labels) > 255
    check(accumulate, tables, replace(CHOICES, full=full))
    assert [guess.labels for guess in runs] == [255, 511, 511]  # the second call knows what the first has seen


def test_room_for_classes_follows_the_last_runs(accumulate: Accumulate, runs: list[ours.Guess]) -> None:
    many, few = (tables_of(9, list(range(labels)), 6, most=60) for labels in (200, 3))
    check(accumulate, many)
    for _ in range(run.REMEMBERED + 1):
        check(accumulate, few)
    assert [guess.labels for guess in runs] == [255] * (run.REMEMBERED + 1) + [run.LEAST_CLASSES]


@pytest.mark.parametrize("images", [3, 900])
def test_what_a_run_costs_the_host(images: int) -> None:
    """The numbers of a run take no torch op but allocation: views are made when somebody asks."""
    tables = tuple(map(torch.from_numpy, tables_of(images, HUGE, 5, most=350 if images > 3 else 30)))
    run.classes_seen.clear()
    sim.launches()
    with Operations() as found:
        numbers = simulated_kernel(ours.accumulate)(*tables, CHOICES, kept_images).means
    launched = sim.launches()
    assert numbers.shape == (1, len(PICKS))
    assert found.names.count("aten.new_empty.default") == 2 and found.names.count("aten.empty.memory_format") == 1
    assert set(found.names) <= {"aten.new_empty.default", "aten.empty.memory_format", *FROM_AND_TO_NUMPY}
    assert len(launched) == (12 if images > 3 else 11), launched  # and those of CUB, which sorts more than 131,072 rows


def test_a_guess_stays_in_its_budget(
    accumulate: Accumulate, runs: list[ours.Guess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CLASS_BUDGET", 24 * CHOICES.class_numbers())
    check(accumulate, tables_of(9, list(range(20)), 6))
    assert [guess.labels for guess in runs] == [3, 31]


def test_a_full_table_of_labels(
    accumulate: Accumulate, runs: list[ours.Guess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FIRST_SLOTS", 16)
    monkeypatch.setattr(run, "FIRST_CLASSES", 3)
    check(accumulate, tables_of(40, list(range(300)), 6))
    assert [(guess.labels, guess.slots) for guess in runs] == [(3, 16), (3, 256), (3, 4096), (511, 4096)]


@pytest.mark.parametrize("by_key", [True, False])
def test_repeated_images(accumulate: Accumulate, runs: list[ours.Guess], by_key: bool) -> None:
    tables = tables_of(30, [1, 5, 9], 7)
    tables[2][3:9, :2] = [12, 1]
    tables[2][9:12, :2] = [12, 0]
    tables[2][20:23, :2] = [-4, 1]
    assert check(accumulate, tables, replace(CHOICES, by_key=by_key)).totals.repeated == 7
    assert len(runs) == 2


def test_equal_hashes_are_no_repeated_image(accumulate: Accumulate, runs: list[ours.Guess]) -> None:
    tables = tables_of(30, [1, 5], 7)
    tables[2][:, :2] = [12, 0]
    check(accumulate, tables)
    assert len(runs) == 1


def test_extreme_image_ids(accumulate: Accumulate) -> None:
    tables = tables_of(8, [1, 5], 8)
    tables[2][:, 0] = [2**63 - 1, -(2**63), 0, -1, 1, 2**32, -(2**32), 2**31]
    tables[2][:, 1] = 1
    check(accumulate, tables)


@pytest.mark.parametrize("agnostic", [True, False])
@pytest.mark.parametrize("labels", [[], [2], [-(2**40), -5, 1, 2, 77, 2**40]])
def test_wanted_labels(accumulate: Accumulate, labels: list[int], agnostic: bool) -> None:
    choices = replace(CHOICES, labels=np.array(labels, np.int64), agnostic=agnostic)
    check(accumulate, tables_of(30, [-5, 0, 1, 2, 3], 9), choices)


@pytest.mark.parametrize("images", [[], [4], [17, 3, 4, 29, 0]])
def test_wanted_images(accumulate: Accumulate, images: list[int]) -> None:
    tables = tables_of(30, [1, 5, 9], 7)
    tables[2][3:9, :2] = [12, 1]
    check(accumulate, tables, replace(CHOICES, images=np.array(images, np.int64)))


@pytest.mark.parametrize("grid", [[], [0.0], [0.3, -1.0, 0.0, 0.9, 0.1], [np.nan, 0.0, 0.1, np.nan]])
def test_recall_grids(accumulate: Accumulate, grid: list[float]) -> None:
    check(accumulate, tables_of(9, [1, 2], 1), replace(CHOICES, recall_thresholds=np.array(grid), full=True))


def test_no_picks(accumulate: Accumulate) -> None:
    assert check(accumulate, tables_of(5, [1], 1), replace(CHOICES, picks=())).means.shape == (1, 0)


def test_more_settings_than_a_pass_takes(accumulate: Accumulate) -> None:
    shape = RecordShape(33, 4, 3)
    check(accumulate, tables_of(12, [1, 2], 1, shape), replace(CHOICES, shape=shape))


def test_ground_truth_counts_beyond_shared_memory(accumulate: Accumulate) -> None:
    shape = RecordShape(1, 20, 1)
    check(accumulate, tables_of(12, [1, 2], 1, shape), AccumulateChoices(shape, np.linspace(0, 1, 3)))


def test_arrays_that_are_not_contiguous(accumulate: Accumulate) -> None:
    rows, ground_truths, images = tables_of(12, [1, 2], 1)
    doubled = tuple(np.repeat(table, 2, axis=0)[::2] for table in (rows, ground_truths, images))
    check(accumulate, doubled)  # type: ignore[arg-type]


@pytest.mark.parametrize("images", [12, 900])
@pytest.mark.parametrize("skipped", [1, 2, 3])
def test_tables_that_begin_anywhere(accumulate: Accumulate, skipped: int, images: int) -> None:
    """Rows of 15 bytes, the shortest, are read by aligned words; 900 images have too many detections to be merged."""
    shape = RecordShape(1, 1, 1)
    rows, *rest = tables_of(images, [1, -2, 7], 1, shape, most=350 if images > 12 else 30)
    assert rows.shape[1] == 15 and (len(rows) > 1 << 17) == (images > 12)
    shifted = np.concatenate((rows[:skipped], rows))[skipped:]
    assert (shifted.ctypes.data - rows.ctypes.data) % 4 == -skipped % 4
    check(accumulate, (shifted, *rest), AccumulateChoices(shape, np.linspace(0, 1, 11)))  # type: ignore[arg-type]


def test_an_error_is_raised_first(accumulate: Accumulate) -> None:
    def raising(code: int) -> None:
        raise InputError(f"code {code}")

    tables = tables_of(12, [1, 2], 1)
    tables[2][:, :2] = [12, 1]
    with pytest.raises(InputError, match="code 77"):
        accumulate(*map(torch.from_numpy, tables), CHOICES, kept_images, torch.tensor(77), raising)


@pytest.mark.parametrize("change", [1, -1])
def test_images_with_other_rows_are_rejected(accumulate: Accumulate, change: int) -> None:
    for by_key in (True, False):
        rows, ground_truths, images = tables_of(12, [1, 2], 1)
        images[-1, 4] += change if images[-1, 4] + change >= 0 else -change
        with pytest.raises(InputError, match="images must name all rows of detections and ground_truths"):
            tables = map(torch.from_numpy, (rows, ground_truths, images))
            accumulate(*tables, replace(CHOICES, by_key=by_key), kept_images)


def test_negative_row_counts_are_rejected(accumulate: Accumulate) -> None:
    rows, ground_truths, images = tables_of(12, [1, 2], 1)
    images[3, 4] += images[2, 4] + 5
    images[2, 4] = -5
    with pytest.raises(InputError, match="images must name all rows"):
        accumulate(*map(torch.from_numpy, (rows, ground_truths, images)), CHOICES, kept_images)


def test_rows_without_images_are_rejected(accumulate: Accumulate) -> None:
    rows, ground_truths, images = tables_of(12, [1, 2], 1)
    with pytest.raises(InputError, match="images must name all rows"):
        accumulate(*map(torch.from_numpy, (rows, ground_truths, images[:0])), CHOICES, kept_images)


def test_too_many_rows_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "MOST_ROWS", 3)
    tables = tuple(map(torch.from_numpy, tables_of(9, [1, 2], 1)))
    with pytest.raises(InputError, match=f"detections must hold at most 3 rows but holds {len(tables[0])}"):
        ours.accumulate(*tables, CHOICES, kept_images)


def test_tensors_on_another_device_are_named() -> None:
    rows, ground_truths, images = map(torch.from_numpy, tables_of(9, [1, 2], 1))
    with pytest.raises(InputError, match="images must be on cpu like detections but is on meta"):
        ours.accumulate(rows, ground_truths, images.to("meta"), CHOICES, kept_images)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_is_captured_in_a_graph() -> None:
    tables = tables_of(40, HUGE, 3)
    records = ours.Records(*(torch.from_numpy(table).cuda() for table in tables))
    guess = ours.Guess.of(255)
    eager = ours.enqueue(records, CHOICES, guess, True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ours.enqueue(records, CHOICES, guess, True)
    graph.replay()
    torch.cuda.synchronize()
    read = len(ours.Words._fields) + eager.means
    assert torch.equal(captured.head[1:read], eager.head[1:read])
    for mine, other in zip(Curves(*captured.curves), eager.curves):
        assert torch.equal(mine.view(torch.int64), other.view(torch.int64))
