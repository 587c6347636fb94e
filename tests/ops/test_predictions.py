"""Predicted classes: every kernel equals the definition by bytes; maps give what their pixels give as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import library as torch_library

from testing import examples_labels as made
from testing.parity import differences
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR, Names, describe_value
from valor_gpu.ops.labels.op import count_pairs
from valor_gpu.ops.predictions import op as predictions
from valor_gpu.ops.predictions.op import confuse_scores, predict_maps

Run = Callable[..., Any]
KERNELS = {"confuse_scores": predictions._confuse_cuda, "predict_maps": predictions._maps_cuda}
EXAMPLES: dict[str, Callable[[bool], Iterator[tuple[str, Any]]]] = {
    "confuse_scores": made.confuse_examples,
    "predict_maps": made.map_examples,
}


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Calls an op by name, as one backend computes it."""
    return lambda name, *args: kernel(request.param, name, KERNELS[name])(*args)


def check(run: Run, name: str, *args: Any) -> Any:
    """The outputs of an op, which are those of its definition by bytes."""
    got = tuple(run(name, *args))
    assert differences(got, _library.reference(name)(*args)) == ""
    return got


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(run: Run, name: str) -> None:
    for _, args in EXAMPLES[name](True):
        check(run, name, *args)


@pytest.mark.smoke
def test_small_cases(run: Run) -> None:
    rng = np.random.default_rng(1)
    check(run, "confuse_scores", made.scores_of(rng, 20, 3), made.labels_of(rng, 20, 3), 3)
    check(run, "predict_maps", made.scores_of(rng, 6, 8).view(2, 3, 8), made.labels_of(rng, 16, 3), 3)


@pytest.mark.parametrize(("rows", "classes"), [(40, 3), (17_000, 3), (200, 130)])
def test_matrices_in_shared_and_in_device_memory(run: Run, rows: int, classes: int) -> None:
    rng = np.random.default_rng(rows)
    scores, target = made.scores_of(rng, rows, classes), made.labels_of(rng, rows, classes)
    matrix, predicted, _ = check(run, "confuse_scores", scores, target, classes)
    counted = predicted >= 0
    assert torch.equal(matrix, count_pairs(predicted[counted], target[counted], classes).matrix)
    assert int(matrix.sum()) == int((target != classes).sum())


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_cuda_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    rng = np.random.default_rng(int(seed))
    simulated = {name: kernel("simulated", name, cuda) for name, cuda in KERNELS.items()}
    scores, target = made.scores_of(rng, 90, 120), made.labels_of(rng, 90, 120)
    check(lambda name, *args: simulated[name](*args), "confuse_scores", scores, target, 120)
    maps, truth = made.scores_of(rng, 21, 96).view(3, 7, 96), made.labels_of(rng, 288, 7)
    check(lambda name, *args: simulated[name](*args), "predict_maps", maps, truth, 7)


def test_views_are_read_in_their_order(run: Run) -> None:
    rng = np.random.default_rng(4)
    maps = made.scores_of(rng, 24, 20).view(2, 12, 20)[:, ::2, 1::2]
    check(run, "predict_maps", maps, made.labels_of(rng, 40, 6)[::2], 6)
    check(run, "confuse_scores", made.scores_of(rng, 6, 60).T, made.labels_of(rng, 120, 6)[::2], 6)
    shifted = made.scores_of(rng, 1, 1 + 5 * 16)[0, 1:].view(1, 5, 16)
    check(run, "predict_maps", shifted, made.labels_of(rng, 16, 5), 5)


def test_the_first_error_is_reported(run: Run) -> None:
    scores, target = torch.rand(3, 5, 16), torch.randint(0, 5, (48,))
    scores[1, 4, 4] = scores[1, 2, 4] = scores[2, 0, 0] = torch.nan
    target[7] = 9
    target[5] = -1
    scores[0, 0, 5] = torch.nan  # of an ignored pixel
    classes, error = run("predict_maps", scores, target, -1)
    assert describe_value(int(error), Names(5)) == "target[7] must be a class index from 0 to 4"
    assert (classes == -1).nonzero().flatten().tolist() == [5, 7, 20, 32]
    target[7] = 0
    assert describe_value(int(run("predict_maps", scores, target, -1)[1]), Names(5)) == "preds[20, 2] must not be NaN"
    rows = scores.movedim(1, 2).reshape(-1, 5)
    assert describe_value(int(run("confuse_scores", rows, target, -1)[2]), Names(5)) == "preds[20, 2] must not be NaN"


def test_public_functions() -> None:
    scores, target = torch.rand(2, 4, 9), torch.randint(0, 4, (18,))
    maps = predict_maps(scores, target)
    pairs = confuse_scores(scores.movedim(1, 2).reshape(-1, 4), target)
    assert torch.equal(maps.classes, pairs.classes) and int(maps.error) == int(pairs.error) == NO_ERROR
    assert torch.equal(maps.classes, scores.argmax(1).flatten().int())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, y: confuse_scores(s[0, 0], y), r"scores must have shape \[N, N\] but got \[4\]"),
        (lambda s, y: predict_maps(s[0], y), r"scores must have shape \[N, N, N\] but got \[3, 4\]"),
        (lambda s, y: predict_maps(s.long(), y), "scores must have dtype torch.float16"),
        (lambda s, y: predict_maps(s[:, :0], y), r"scores must have at least one class but has shape \[2, 0, 4\]"),
        (lambda s, y: predict_maps(s, y[1:]), r"target must have shape \[8\] but got \[7\]"),
        (lambda s, y: predict_maps(s, y.float()), "target must have dtype torch.int8"),
        (lambda s, y: predict_maps(s, y.to("meta")), "target must be on cpu like scores but is on meta"),
    ],
)
def test_errors_name_the_argument(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(torch.rand(2, 3, 4), torch.zeros(8, dtype=torch.int64))


def test_opcheck() -> None:
    rng = np.random.default_rng(2)
    scores, target = made.scores_of(rng, 12, 4), made.labels_of(rng, 12, 4)
    torch_library.opcheck(torch.ops.valor_gpu.confuse_scores.default, (scores, target, 4))
    torch_library.opcheck(torch.ops.valor_gpu.predict_maps.default, (scores.view(3, 4, 4), target, None))
