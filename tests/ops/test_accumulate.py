"""accumulate: everything in one call equals its steps, pycocotools and the reference by bytes."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.examples_records import accumulate_examples, images_table
from testing.registry import ROWS, Example, disagreement
from tests.fuzz import seeds
from tests.ops.test_accumulate_steps import SETTINGS, case
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate import cpu as _accumulate_cpu
from valor_gpu.ops.accumulate import reference as _accumulate_reference
from valor_gpu.ops.accumulate.op import accumulate, precision_recall, present_means
from valor_gpu.ops.accumulate.types import TIE_ORDERS, AccumulateChoices, Accumulated, Curves, Pick, RecordShape, Totals
from valor_gpu.ops.assign.image_order import choose_images
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.reduce.coco_summary import summary_picks

Tables = tuple[Tensor, Tensor, Tensor]
PICKS = (Pick("precision", 0, -1, [0]), Pick("recall", -1, 0, [0]))


def arrays(found: Accumulated) -> list[np.ndarray]:
    tensors = (found.labels, found.positives, *found.ordered, *found.curves, found.means, found.totals.words())
    return [np.asarray(tensor) for tensor in tensors]


def check(tables: Tables, choices: AccumulateChoices) -> Accumulated:
    """The kernel, on one thread and on several, gives the bytes of the reference."""
    expected = _accumulate_reference.accumulate(*tables, choices)
    host = [table.numpy() for table in tables]
    for found in (accumulate(*tables, choices), _accumulate_cpu.accumulate(*host, choices, threads=3)):
        for mine, other in zip(arrays(found), arrays(expected)):
            assert mine.shape == other.shape and mine.dtype == other.dtype and mine.tobytes() == other.tobytes()
    return found


def scene(count: int = 400, ids: tuple[int | None, ...] = (4, None, -3, 11, None, 0), seed: int = 0) -> Tables:
    """Random rows of five labels and 2 x 3 settings with two limits, as those of images with these ids."""
    rows, ground_truths, *_ = dict(accumulate_examples(True))["images by arrival"]
    chosen = rows[torch.from_numpy(np.random.default_rng(seed).permutation(len(rows))[:count])]
    return chosen, ground_truths, images_table(chosen, ground_truths, ids)


def choices(**changes: object) -> AccumulateChoices:
    plain = AccumulateChoices(RecordShape(2, 3, 2), np.array([0.0, 0.3, 1.0]), PICKS, full=True)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", SETTINGS)
def test_arrays_and_means_equal_pycocotools_by_bytes(name: str, seed: int) -> None:
    c = case(name, 100 * list(SETTINGS).index(name) + seed)
    picks = (Pick("precision", 0, -1, range(c.shape.thresholds)), Pick("recall", 0, 0, range(c.shape.thresholds)))
    wanted = AccumulateChoices(
        c.shape, c.recalls.numpy(), picks, by_key=False, agnostic=c.agnostic, full=True, labels=c.labels.numpy()
    )
    found = accumulate(c.matched.detections, c.matched.ground_truths, c.matched.images, wanted)
    for array in Curves._fields:
        assert getattr(found.curves, array).numpy().tobytes() == c.expected[array].tobytes(), array
    values = c.expected["precision"][..., 0, -1], c.expected["recall"][..., 0, 0]
    means = [np.mean(x[x > -1]) if (x > -1).any() else np.nan for x in values]
    assert found.means[0].numpy().tobytes() == np.array(means).tobytes()


@pytest.mark.parametrize("ties", TIE_ORDERS)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", ["default", "unsorted_recalls", "limits_unsorted", "recalls_outside_and_repeated"])
def test_equals_its_steps(name: str, full: bool, ties: str) -> None:
    c = case(name, 7)
    names = summary_picks(c.params.iouThrs.tolist(), [1] * c.shape.limits, ["all"] * c.shape.areas)
    picks = tuple(names.values())
    orders = (ties, *(order for order in TIE_ORDERS if order != ties))
    wanted = AccumulateChoices(c.shape, c.recalls.numpy(), picks, by_key=False, full=full, ties=orders,
                               labels=c.labels.numpy())  # fmt: skip
    found = accumulate(c.matched.detections, c.matched.ground_truths, c.matched.images, wanted)
    ordered = c.ordered()
    assert torch.equal(found.ordered.order, ordered.order) and torch.equal(found.ordered.offsets, ordered.offsets)
    assert torch.equal(found.positives, c.positives())
    for index, order in enumerate(orders):
        curves = precision_recall(c.matched.detections, ordered, c.positives(), c.recalls, c.shape, full, order)
        means = present_means(curves, picks)
        assert found.means[index].numpy().tobytes() == means.numpy().tobytes()
        if index == 0:
            assert all(torch.equal(mine, other) for mine, other in zip(found.curves, curves))


@pytest.mark.parametrize("name", ["1000 records", "last limit alone", "class-agnostic", "some labels wanted"])
def test_opcheck(name: str) -> None:
    torch.library.opcheck(torch.ops.valor_gpu.accumulate.default, dict(accumulate_examples(True))[name])


def test_a_wrong_reference_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_accumulate_reference, "_SPACING", 1e-3)
    example = Example("", dict(accumulate_examples(True))["1000 records"])
    assert "output 5" in disagreement(ROWS["accumulate"], example, torch.device("cpu"))


# ------------------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("seed", seeds(5))
def test_copies_of_images_are_left_out(seed: int, by_key: bool) -> None:
    rng = np.random.default_rng(seed)
    ids = tuple(None if key == 3 else int(key) - 1 for key in rng.integers(0, 4, 9))
    tables = scene(300, ids, seed)
    tables[2][:, 3] = torch.where(tables[2][:, 1] == 1, tables[2][:, 0], tables[2][:, 3])  # equal record hashes
    found = check(tables, choices(by_key=by_key))
    named = [key for key in ids if key is not None]
    assert found.totals.repeated == len(named) - len(set(named))
    assert found.totals.images + found.totals.repeated == len(ids)


@pytest.mark.parametrize("run", [accumulate, _accumulate_reference.accumulate], ids=["kernel", "reference"])
def test_copies_with_other_detections_are_reported(run: Callable[..., Accumulated]) -> None:
    rows, ground_truths, table = scene(ids=(5, None, 2, 5, 2, 5))
    table[:, 3] = torch.tensor([0, 1, 2, 0, 1, 2])
    with pytest.warns(UserWarning, match=r"2 images were left out since their image_id \(the first is 2\)"):
        found = run(rows, ground_truths, table, choices())
    first = np.repeat([1, 1, 0, 0, 1, 0], table[:, 4]).astype(bool)  # images with the smallest hashes
    assert found.totals.detections == int((rows[first, 12] != 255).sum()) and found.totals.repeated == 3


@pytest.mark.parametrize("run", [accumulate, _accumulate_reference.accumulate], ids=["kernel", "reference"])
def test_an_id_of_two_images_is_an_error(run: Callable[..., Accumulated]) -> None:
    tables = scene(ids=(5, 9, 2, 5, 2, 9))
    tables[2][3, 2] += 1
    tables[2][5, 2] += 1
    message = "target: image_id 5 must name one image but came with two different ground truths"
    with pytest.raises(InputError, match=message):
        run(*tables, choices())


@pytest.mark.parametrize("run", [accumulate, _accumulate_reference.accumulate], ids=["kernel", "reference"])
@pytest.mark.parametrize(("column", "change"), [(4, 1), (4, -1), (5, 1), (5, -1), (4, -1000), (5, 2**62)])
def test_images_must_have_the_rows_of_the_tables(run: Callable[..., Accumulated], column: int, change: int) -> None:
    tables = scene()
    tables[2][2, column] += change
    with pytest.raises(InputError, match=r"images must name \d+ rows of (detections|ground_truths) but name -?\d+"):
        run(*tables, choices())


def test_images_that_are_not_there_are_an_error() -> None:
    with pytest.raises(InputError, match=r"choices\.images must be rows from 0 to 5 of images but has others"):
        accumulate(*scene(), choices(images=np.array([0, 6])))


def test_order_of_images_breaks_ties() -> None:
    tables = scene()
    tables[0][:, :8] = 0  # all scores are tied
    by_key, by_arrival = check(tables, choices()), check(tables, choices(by_key=False))
    assert not np.array_equal(by_key.ordered.order, by_arrival.ordered.order)
    wanted = check(tables, choices(images=choose_images(tables[2].numpy(), True)))
    assert wanted.ordered.order.tobytes() == by_key.ordered.order.tobytes()


def test_totals() -> None:
    rows, ground_truths, table = scene()
    table[:, 6] = torch.tensor([1 + (2 << 32)] * len(table))
    reaches = np.array([[0.5, 300.0], *[[4.0, 0.25]] * (len(table) - 1)], np.float32)
    table[:, 7] = torch.from_numpy(reaches.view(np.int64)[:, 0])
    totals = check((rows, ground_truths, table), choices(labels=np.array([2, 5]))).totals
    real = ground_truths[(ground_truths[:, 4] >> 3 & 1).bool()]
    assert totals == Totals(
        images=6, repeated=0, detections=int((rows[:, 12] != 255).sum()), ground_truths=len(real),
        ignored=int((real[:, 4] >> 4 & 1).sum()), within_limits=totals.within_limits,
        negative_detections=6, negative_ground_truths=12, detections_reach=4.0, ground_truths_reach=300.0,
    )  # fmt: skip
    labels = rows[:, 8:12].contiguous().view(torch.int32)[:, 0]
    assert totals.within_limits == int(((rows[:, 12] < 2) & ((labels == 2) | (labels == 5))).sum())


# ------------------------------------------------------------------------------------------------------- labels, room


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("room", [(1, 1 << 20), (4096, 1), (1, 1)])
def test_more_labels_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, room: tuple[int, int], agnostic: bool
) -> None:
    monkeypatch.setattr(_accumulate_cpu, "_ROOM", room[0])
    monkeypatch.setattr(_accumulate_cpu, "_ARRAY_ROOM", room[1])
    found = check(scene(), choices(agnostic=agnostic))
    assert len(found.labels) == 5 and len(found.positives) == (1 if agnostic else 5)


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("labels", [[], [2], [-1, 2, 5], [-(2**40), 0, 8]])
def test_wanted_labels(labels: list[int], agnostic: bool) -> None:
    found = check(scene(), choices(labels=np.array(labels, np.int64), agnostic=agnostic))
    assert found.labels.tolist() == labels


def test_nothing() -> None:
    rows, ground_truths, table = (part[:0] for part in scene())
    found = check((rows, ground_truths, table), choices())
    assert found.curves.precision.shape == (2, 3, 0, 3, 2) and np.isnan(found.means).all()
    assert found.totals == Totals(0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)


def test_rows_may_have_gaps() -> None:
    tables = scene()
    wide = [torch.stack((table, table), 1)[:, 1] for table in tables]
    assert not wide[0].is_contiguous()
    found = accumulate(*wide, choices())
    assert [a.tobytes() for a in arrays(found)] == [a.tobytes() for a in arrays(accumulate(*tables, choices()))]


# ------------------------------------------------------------------------------------------------------- choices, means


@pytest.mark.parametrize("ties", [(), ("best",), ("given", "best")])
def test_orders_of_ties_are_checked(ties: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="ties must be one of 'given', 'highest', 'lowest'"):
        choices(ties=ties)


def test_arrays_of_picks_are_checked() -> None:
    with pytest.raises(InputError, match="picks array must be one of 'precision', 'recall' but got 'scores'"):
        accumulate(*scene(), choices(picks=(Pick("scores", 0, 0, [0]),)))


def test_picks_survive_their_table() -> None:
    picks = (Pick("recall", -1, -2, [1, 0]), Pick("precision", 0, 1, []))
    table = choices(picks=picks).pick_table()
    assert table.picks() == (Pick("recall", 2, 0, [1, 0]), Pick("precision", 0, 1, []))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 512, 600])
def test_any_number_of_records_of_a_class(count: int, full: bool) -> None:
    """The C++ library reads them in blocks of 256."""
    tables = scene(count, seed=count)
    tables[0][:, 12] = 0  # the bucket: within the first limit
    assert check(tables, choices(agnostic=True, full=full)).ordered.offsets.tolist() == [0, count]


@pytest.mark.parametrize("classes", [1, 2, 7, 8, 9, 31, 33, 127, 128, 129, 300])
def test_means_are_those_of_numpy_at_every_size_of_a_block(classes: int) -> None:
    """A recall that is one number a class, of every size around the blocks of pairwise summation."""
    rng = np.random.default_rng(classes)
    rows = np.zeros((4 * classes, 15), np.uint8)
    rows[:, :8] = rng.random(len(rows)).view(np.uint8).reshape(-1, 8)
    rows[:, 8:12] = np.repeat(np.arange(classes, dtype=np.int32), 4).view(np.uint8).reshape(-1, 4)
    rows[:, 13] = rng.random(len(rows)) < 0.5
    labels = np.repeat(np.arange(classes, dtype=np.int32), 5)[rng.random(5 * classes) < 0.7]
    ground_truths = np.concatenate([labels.view(np.uint8).reshape(-1, 4), np.full((len(labels), 1), 3, np.uint8)], 1)
    table = images_table(torch.from_numpy(rows), torch.from_numpy(ground_truths), [1]).numpy()
    wanted = AccumulateChoices(RecordShape(1, 1, 1), np.linspace(0, 1, 3), (PICKS[0], Pick("recall", 0, 0, [0, 0])))
    found = _accumulate_cpu.accumulate(rows, ground_truths, table, wanted)
    means = _accumulate_cpu.present_means(found.curves, wanted.picks)
    assert found.means.tobytes() == means.tobytes() and not np.isnan(means).any()


# ------------------------------------------------------------------------------------------------------------- C side


def test_the_task_has_the_fields_of_the_struct() -> None:
    source = (Path(__file__).parents[2] / "csrc" / "cpu" / "accumulate.h").read_text()
    body = re.sub(r"//[^\n]*", "", source.split("struct AccumulateTask {")[1].split("};")[0])
    fields = [
        name.strip().lstrip("*").strip()
        for line in body.split(";")
        if line.strip()
        for name in re.sub(r"^(?:const )?\w+\*? ", "", line.strip()).split(",")
    ]
    assert fields == [name for name, _ in _accumulate_cpu._Task._fields_]


def test_no_torch_is_imported() -> None:
    modules = "valor_gpu.ops.accumulate.cpu, valor_gpu.ops.accumulate.types, valor_gpu.reduce.coco_summary"
    program = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_error_code_is_raised() -> None:
    choices = AccumulateChoices(RecordShape(2, 3, 2), np.linspace(0, 1, 5))
    accumulate(*scene(), choices, torch.tensor(NO_ERROR))
    with pytest.raises(InputError, match="code 77"):
        accumulate(*scene(), choices, torch.tensor(77), lambda code: f"code {code}")
