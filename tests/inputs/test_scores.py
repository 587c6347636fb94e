"""score_batch: every layout of scores and labels ends in the same rows, and what does not fit is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics.utilities.compute import normalize_logits_if_needed

from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
BINARY, CLASSES, LABELS = Task.of(), Task.of(num_classes=3), Task.of(num_labels=3)
ROUNDING = 1e-14  # of float64, whose activation is the library's own: tests/ops/test_activation.py


def scores(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def labels(top: int, *shape: int) -> Tensor:
    return torch.randint(top, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_plain_layouts_are_not_copied(dtype: torch.dtype) -> None:
    preds, target = scores(5, 3).to(dtype), labels(3, 5)
    batch = score_batch(preds, target, CLASSES)
    assert (batch.preds.data_ptr(), batch.target.data_ptr()) == (preds.data_ptr(), target.data_ptr())
    assert batch.preds.dtype == dtype and not batch.hard and batch.weight is None
    several = score_batch(preds, labels(2, 5, 3), LABELS)
    assert several.preds.data_ptr() == preds.data_ptr() and several.target.shape == (5, 3)
    one = score_batch(preds[:, 0], labels(2, 5), BINARY)
    assert one.preds.shape == one.target.shape == (5, 1)
    assert one.preds.data_ptr() == preds.data_ptr()


def test_further_dimensions_are_moved_before_the_classes() -> None:
    preds, target, several = scores(4, 3, 2, 5), labels(3, 4, 2, 5), labels(2, 4, 3, 2, 5)
    flat = torch.stack([preds[n, :, i, j] for n in range(4) for i in range(2) for j in range(5)])
    batch = score_batch(preds, target, CLASSES)
    assert batch.preds.shape == (4, 3, 10) and batch.preds.data_ptr() == preds.data_ptr()
    assert torch.equal(batch.scores, flat) and torch.equal(batch.target, target.flatten())
    many = score_batch(preds, several, LABELS)
    assert torch.equal(many.preds, flat)
    assert many.target[7].tolist() == several[0, :, 1, 2].tolist()
    hard = score_batch(labels(3, 4, 2, 5), target, CLASSES)
    assert hard.hard and hard.preds.shape == (40,)
    assert score_batch(preds, several, BINARY).preds.shape == (120, 1)


def test_gradients_end_at_the_intake() -> None:
    preds = scores(5, 3).requires_grad_()
    assert not score_batch(preds, labels(3, 5), CLASSES).preds.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_weights_are_float64_rows(dtype: torch.dtype) -> None:
    weight = (scores(4) * 2).to(dtype)
    assert torch.equal(score_batch(scores(4, 3), labels(3, 4), CLASSES, weight).weight, weight.double())
    rows = score_batch(scores(4, 3, 2, 5), labels(3, 4, 2, 5), CLASSES, weight).weight
    assert rows.tolist() == [float(w) for w in weight for _ in range(10)]
    each = scores(4, 2, 5)
    for task, preds, target in (
        (CLASSES, scores(4, 3, 2, 5), labels(3, 4, 2, 5)),
        (LABELS, scores(4, 3, 2, 5), labels(2, 4, 3, 2, 5)),
        (BINARY, scores(4, 2, 5), labels(2, 4, 2, 5)),
    ):
        assert torch.equal(score_batch(preds, target, task, each).weight, each.flatten().double())


def test_float_targets_must_be_whole_numbers() -> None:
    target = torch.tensor([0.0, 2.0, -1.0, 0.5, torch.nan])
    batch = score_batch(scores(5, 3), target, CLASSES)
    least = torch.iinfo(torch.int64).min
    assert batch.target.tolist() == [0, 2, -1, least, least]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("logits", [False, True])
def test_auto_activation_is_the_rule_of_torchmetrics(dtype: torch.dtype, logits: bool) -> None:
    preds = (scores(6, 3) * (8 if logits else 1) - (4 if logits else 0)).to(dtype)
    softmax = score_batch(preds, labels(3, 6), CLASSES).probabilities()
    sigmoid = score_batch(preds, labels(2, 6, 3), LABELS).probabilities()
    for found, how in ((softmax, "softmax"), (sigmoid, "sigmoid")):
        # Repeated, all elements stand in whole vectors; torch gives those behind the last vector other last bits.
        expected = normalize_logits_if_needed(preds.repeat(64, 1), how)[: len(preds)]
        rtol = ROUNDING if dtype == torch.float64 else 0.0
        torch.testing.assert_close(found, expected, rtol=rtol, atol=0.0)
    assert softmax.dtype == dtype
    assert logits or softmax.data_ptr() == preds.data_ptr()


def test_one_score_beyond_one_or_below_zero_makes_logits() -> None:
    for extreme in (1.5, -0.25):
        preds = torch.tensor([0.5, extreme])
        found = score_batch(preds, torch.tensor([0, 1]), BINARY).probabilities()
        assert torch.equal(found, preds.sigmoid()[:, None])
    edges = torch.tensor([0.0, 1.0])
    assert torch.equal(score_batch(edges, torch.tensor([0, 1]), BINARY).probabilities(), edges[:, None])


def test_named_activations_do_not_guess() -> None:
    preds, target = scores(6, 3), labels(3, 6)
    for activation, expected in (("none", preds), ("sigmoid", preds.sigmoid()), ("softmax", preds.softmax(1))):
        task = Task.of(num_classes=3, activation=activation)
        assert torch.equal(score_batch(preds, target, task).probabilities(), expected)


@pytest.mark.parametrize("activation", ["auto", "none", "sigmoid", "softmax"])
def test_empty_batches(activation: str) -> None:
    task = Task.of(num_classes=3, activation=activation)
    batch = score_batch(scores(0, 3), labels(3, 0), task, scores(0))
    assert batch.probabilities().shape == (0, 3) and batch.weight is not None and batch.weight.shape == (0,)


def test_hard_labels_are_no_scores() -> None:
    batch = score_batch(labels(3, 5), labels(3, 5), CLASSES)
    for read in (lambda: batch.scores, batch.probabilities):
        with pytest.raises(InputError, match=r"preds must be scores of a floating dtype but got labels of torch.int64"):
            read()


MISFITS: list[tuple[Task, Any, Any, Any, str]] = [
    (CLASSES, [0.5], torch.zeros(1), None, r"preds must be scores \[N, 3, ...\] .* but got preds torch.float32 \[1\]"),
    (CLASSES, scores(4, 3), 3, None, "target must be Tensor or ndarray or list or tuple but got int"),
    (CLASSES, scores(4, 3).cfloat(), labels(3, 4), None, "preds must be floating point or integer but is .*complex64"),
    (CLASSES, scores(4, 2), labels(3, 4), None, r"preds must be scores \[N, 3, ...\] .* got preds .* \[4, 2\]"),
    (CLASSES, scores(4, 3), labels(3, 5), None, r"target \[5\]"),
    (
        CLASSES,
        scores(4, 3),
        labels(2, 4, 3),
        None,
        r"give num_labels=3 for several labels per sample, or target.argmax",
    ),
    (CLASSES, scores(4, 3, 2), labels(3, 4), None, r"preds must be scores"),
    (CLASSES, scores(4), labels(3, 4), None, "preds must be scores"),
    (CLASSES, labels(3, 4, 3), labels(3, 4), None, "or integer labels"),
    (CLASSES, torch.tensor(1), torch.tensor(1), None, "preds must be scores"),
    (LABELS, scores(4, 2), labels(2, 4, 2), None, r"preds and target must both have shape \[N, 3, ...\]"),
    (LABELS, scores(4, 3), labels(3, 4), None, r"in the multilabel task but got preds .* and target \[4\]"),
    (BINARY, scores(4, 2), labels(2, 4), None, "give num_classes=2 for scores of classes"),
    (BINARY, scores(4, 1), labels(2, 4), None, r"preds\.squeeze\(1\) takes the channel of one off$"),
    (BINARY, torch.tensor(0.5), torch.tensor(1), None, r"must both have shape \[N, ...\] in the binary task"),
    (
        CLASSES,
        scores(4, 3),
        labels(3, 4),
        1.0,
        "sample_weight must be Tensor or ndarray or list or tuple but got float",
    ),
    (CLASSES, scores(4, 3), labels(3, 4), scores(3), r"sample_weight must have shape \[4\] but got \[3\]"),
    (CLASSES, scores(4, 3, 2), labels(3, 4, 2), scores(2), r"must have shape \[4\] or \[4, 2\] but got \[2\]"),
    (CLASSES, scores(4, 3), labels(3, 4), scores(4).cfloat(), "sample_weight must be floating point or integer"),
    (CLASSES, scores(4, 3), labels(3, 4).to("meta"), None, "target must be on cpu like preds but is on meta"),
    (CLASSES, scores(4, 3), labels(3, 4), scores(4).to("meta"), "sample_weight must be on cpu like preds"),
]


@pytest.mark.parametrize(("task", "preds", "target", "weight", "message"), MISFITS)
def test_misfits_are_rejected_by_name(task: Task, preds: Any, target: Any, weight: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_batch(preds, target, task, weight)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(num_classes=3, num_labels=3), "num_classes and num_labels exclude each other"),
        (dict(num_classes=1), "num_classes must be an int of at least 2 but got 1"),
        (dict(num_classes=3.0), "num_classes must be an int of at least 2 but got 3.0"),
        (dict(num_labels=0), "num_labels must be an int of at least 1 but got 0"),
        (dict(num_labels=True), "num_labels must be an int of at least 1 but got True"),
        (dict(ignore_index=0.5), "ignore_index must be an int or None but got 0.5"),
        (dict(activation="tanh"), "activation must be one of 'auto', 'none', 'sigmoid', 'softmax' but got 'tanh'"),
    ],
)
def test_tasks_that_do_not_exist(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Task.of(**choices)


def test_the_task_follows_from_the_arguments() -> None:
    assert (BINARY.kind, BINARY.classes) == ("binary", 1)
    assert (CLASSES.kind, CLASSES.classes) == ("multiclass", 3)
    assert LABELS.config() == {"task": "multilabel", "classes": 3, "ignore_index": None, "activation": "auto"}
    assert isinstance(score_batch(scores(2), labels(2, 2), BINARY), ScoreBatch)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("odd", [7.0, -7.0, float("inf"), float("nan")])
def test_scores_that_are_ignored_do_not_make_logits(dtype: torch.dtype, odd: float) -> None:
    for kind, choices, target in (
        ("binary", {}, labels(2, 6)),
        ("multilabel", {"num_labels": 3}, labels(2, 6, 3)),
        ("multiclass", {"num_classes": 3}, labels(3, 6)),
    ):
        task = Task.of(ignore_index=-1, **choices)
        preds = scores(6, 3).to(dtype) if kind != "binary" else scores(6).to(dtype)
        target[2] = -1
        counts = (target != -1).reshape(6, -1).expand(6, task.classes)
        preds[2] = odd
        found = score_batch(preds, target, task).probabilities()
        assert torch.equal(found[counts], preds.reshape(6, -1)[counts]), kind
        preds[0] = 3
        found = score_batch(preds, target, task).probabilities()
        rows = preds.reshape(6, -1)
        expected = rows.softmax(1) if kind == "multiclass" else rows.sigmoid()
        rounding = ROUNDING if dtype == torch.float64 else 0.0
        torch.testing.assert_close(found[counts], expected[counts], rtol=rounding, atol=0.0, msg=kind)
