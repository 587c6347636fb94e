"""Units without ids are paired by arrival: another order is an error, or a note where nothing tells of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.segmentation import BoundaryF1, DiceScore, SurfaceDistance
from valor_gpu.stats import compare
from valor_gpu.text import BLEUScore, ROUGEScore, TokenF1

_NOTE = "{} are paired by the order in which they came, and the metric keeps nothing that tells"


def masks() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 2, (24, 12, 12), generator=generator)
    flips = torch.rand((2, *target.shape), generator=generator) < 0.1
    first, second = target ^ flips[0], target ^ flips[1]
    return first, second, target


def notes(first: Metric, second: Metric) -> str:
    return " ".join(compare(first, second, replicates=20, permutations=0).signature["notes"])


@pytest.mark.parametrize("kind", [BoundaryF1, SurfaceDistance])
def test_a_note_says_that_nothing_tells_the_order_of_images(kind: type[Metric]) -> None:
    first, second, target = masks()
    old, new = (kind(num_classes=2, input_format="index") for _ in range(2))
    old.update(first, target)
    new.update(second.flip(0), target.flip(0))
    assert _NOTE.format("images") in notes(old, new)


@pytest.mark.parametrize("make", [TokenF1, ROUGEScore, lambda: BLEUScore(keep_rows=True)])
def test_a_note_says_that_nothing_tells_the_order_of_texts(make: Callable[[], Metric]) -> None:
    old, new = make(), make()
    answers, references = ["a b c d", "a b d e", "b c d e f", "e f g a"] * 8, [["a b c d e"], ["b c d e f"]] * 16
    old.update(answers, references)
    new.update(answers[::-1], references[::-1])
    assert _NOTE.format("rows") in notes(old, new)


def test_no_note_where_ground_truths_tell() -> None:
    first, second, target = masks()
    old, new, other = (DiceScore(num_classes=2, input_format="index") for _ in range(3))
    old.update(first, target)
    new.update(second, target)
    assert "order" not in notes(old, new)
    other.update(second.flip(0), target.flip(0))
    with pytest.raises(InputError, match=r"same ground truth but that of image 0 \(counted from 0\) differs"):
        compare(old, other, replicates=20)
