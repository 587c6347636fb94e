"""Checks of a GPU for what ``csrc/sim`` cannot show: blocks at the same time, memory order, CUB, streams, Triton.

``csrc/sim/README.md`` lists it. Everything is compared with the CPU, bit by bit; the device may be the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks import gpu_unseen_cases, gpu_unseen_streams
from benchmarks.checks import Checks, Disagreement, Unavailable
from benchmarks.gpu_parity import only_rehearsed
from benchmarks.gpu_unseen_cases import FULL, SMALL, Case, Extent
from testing.examples_pixels import labels_of, logits_of, with_value
from testing.offsets import moved_all
from testing.parity import differences
from testing.registry import ROWS, Example, call, place
from valor_gpu.ops import backends
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule, to_arguments

Array = NDArray[np.float64]
_SOME = 16
"""Pairs whose IoU a fused multiply-add moves across a threshold, which the check needs to mean something."""
_GROUPS: dict[str, tuple[Callable[[Extent], Iterator[Case]], bool]] = {
    "few counters": (gpu_unseen_cases.few_counters, True),
    "errors in every row": (gpu_unseen_cases.errors_everywhere, True),
    "chains of launches": (gpu_unseen_cases.chains, True),
    "sorts": (gpu_unseen_cases.sorts, False),
    "many items": (gpu_unseen_cases.many_items, False),
    "inexact arithmetic": (gpu_unseen_cases.inexact, False),
}
"""Arguments of ops, and whether a call is repeated as often as the extent says, else twice."""


def check_unseen(checks: Checks, device: torch.device) -> None:
    """All of it; on a CPU, smaller.

    Args:
        checks: records the outcomes.
        device: a CUDA device, or the CPU, where what is about streams, pinned memory and Triton is rehearsed, which
            counts as unavailable, and first calls are not run.
    """
    extent = FULL if device.type == "cuda" else SMALL
    backends()  # registers every op
    for group, (cases, often) in _GROUPS.items():
        repeats = extent.repeats if often else 2
        for op, of_op in groupby(sorted(cases(extent), key=lambda case: case[0]), lambda case: case[0]):
            checks.run(f"{group}: {op}", partial(_check_cases, list(of_op), device, repeats))
    checks.run("contraction: IoUs beside thresholds", partial(check_contraction, device, extent.rows))
    checks.run("slices at odd addresses", partial(check_slices, device))
    checks.run("Triton beside CUDA C++", partial(check_triton, device))
    gpu_unseen_streams.check_all(checks, device)


def _check_cases(cases: Iterable[Case], device: torch.device, repeats: int) -> None:
    for op, name, arguments in cases:
        if text := repeated_difference(op, arguments, device, repeats):
            raise Disagreement(f"{name}: {text}")


def repeated_difference(op: str, arguments: tuple[Any, ...], device: torch.device, repeats: int) -> str:
    """How calls on ``device`` differ from the CPU kernel, or from the first of them; empty when none does.

    The calls are enqueued one after another, and looked at when all are.
    """
    row = ROWS[op]
    expected = row.defined(call(op)(*arguments))
    placed = place(row, Example("", arguments), device)
    results = [row.defined(call(op)(*placed)) for _ in range(repeats)]
    if text := differences(results[0], expected):
        return text
    for number, result in enumerate(results[1:], 1):
        if not all(_equal_bits(*pair) for pair in zip(result, results[0], strict=True)):
            return f"repeat {number}: {differences(result, results[0]) or 'other bits of a NaN'}"
    return ""


def _equal_bits(first: Tensor, second: Tensor) -> bool:
    """Whether all bits are equal, found on the device."""
    if first.is_floating_point():
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
        first, second = first.view(words), second.view(words)
    return torch.equal(first, second)


# -------------------------------------------------------------------------------------------------------- contraction


def _rounded_once(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding, but for doubts of the last bit: Dekker's product and Knuth's sum."""
    parts = [(x * 134_217_729.0 - (x * 134_217_729.0 - x)) for x in (a, b)]
    rests = [a - parts[0], b - parts[1]]
    product = a * b
    error = ((parts[0] * parts[1] - product) + parts[0] * rests[1] + rests[0] * parts[1]) + rests[0] * rests[1]
    total = product + c
    added = total - product
    return total + ((product - (total - added)) + (c - added) + error)


def contracted_pairs(count: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Boxes xywh of detections and ground truths whose IoU differs where a product is fused into a sum.

    Args:
        count: of random pairs, of which those are kept.
        seed: of the random numbers.

    Returns:
        float64 ``[n, 4]`` twice, the IoU with every step rounded, and the nearest one above or below with a step fused.
    """
    rng = np.random.default_rng(seed)
    first = rng.random((count, 4)) * [50, 50, 40, 40] + [0, 0, 5, 5]
    second = first + (rng.random((count, 4)) - 0.5) * 8
    low, high = (
        np.maximum(first[:, :2], second[:, :2]),
        np.minimum(first[:, 2:] + first[:, :2], second[:, 2:] + second[:, :2]),
    )
    (w, h), area = (high - low).T, first[:, 2] * first[:, 3]
    common = w * h
    plain = common / (area + second[:, 2] * second[:, 3] - common)
    fused = common / (_rounded_once(second[:, 2], second[:, 3], area) - common)
    fused_last = common / _rounded_once(-w, h, area + second[:, 2] * second[:, 3])
    fused = np.where(fused == plain, fused_last, fused)
    chosen = (fused != plain) & (w > 0) & (h > 0)
    return first[chosen], second[chosen], plain[chosen], fused[chosen]


def check_contraction(device: torch.device, count: int) -> None:
    """A threshold between both IoUs of a pair is reached, or not, as without contraction."""
    detections, ground_truths, plain, fused = contracted_pairs(count)
    if len(plain) < _SOME:
        raise Disagreement(f"{len(plain)} of {count} pairs depend on contraction, of which {_SOME} are needed")
    boxes, gt_boxes = torch.from_numpy(detections), torch.from_numpy(ground_truths)
    ends = torch.arange(len(plain) + 1).expand(3, -1).contiguous()
    arguments = (boxes, gt_boxes, ends, None, 1)
    if text := differences(call("box_iou")(*arguments), torch.from_numpy(plain)):
        raise Disagreement(f"IoU on the CPU against numpy: {text}")
    if text := repeated_difference("box_iou", arguments, device, 2):
        raise Disagreement(f"IoU: {text}")
    thresholds = np.sort(np.maximum(plain, fused)[:: len(plain) // _SOME]).tolist()
    names, one = torch.zeros(len(plain), dtype=torch.int64), torch.ones((2, len(plain)), dtype=torch.int64)
    batch = MatchBatch(
        one, [boxes], [torch.ones(len(plain)).double()], [names], gt_boxes=[gt_boxes], gt_labels=[names],
        gt_flags=[names], box_format=1, gt_box_format=1,
    )  # fmt: skip
    rule = MatchRule.make(thresholds, [[0, 1e10]], [1], 0)
    if text := repeated_difference("assign", to_arguments(batch, rule, torch.from_numpy), device, 2):
        raise Disagreement(f"matches: {text}")


# ---------------------------------------------------------------------------------------------- slices, Triton


def check_slices(device: torch.device) -> None:
    """Every op gives the same bits for tensors that begin at odd places of their memory; a dozen examples of each."""
    for name, row in ROWS.items():
        examples = [example for example in row.examples(True) if not example.native_only and _elements(example) < 6000]
        for number, example in enumerate(examples[:: len(examples) // 12 + 1]):
            arguments = moved_all(place(row, example, device), number)
            outputs = [row.defined(call(name)(*given)) for given in (arguments, example.arguments)]
            if example.output is not None:
                outputs = [(output[example.output],) for output in outputs]
            if text := differences(*outputs):
                raise Disagreement(f"{name}, {example.name}: {text}")


def _elements(example: Example) -> int:
    return sum(leaf.numel() for leaf in pytree.tree_leaves(example.arguments) if isinstance(leaf, Tensor))


def triton_cases() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Arguments of ``count_logits`` by name, few since Triton compiles most of them anew.

    They differ in dtypes, layouts, columns that 16 divides or not, and classes, of which a Triton histogram has room
    for 1,000 but not for 2,000; NaN and ties are everywhere.
    """
    rng = np.random.default_rng(77)
    kinds = [(dtype, 19, 33, False) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]
    kinds += [(torch.float32, classes, 64, classes == 19) for classes in (1, 2, 19, 1000, 2000)]
    for dtype, classes, columns, last in kinds:
        logits = logits_of(rng, (2, classes, 20, columns), dtype)
        target = with_value(labels_of(rng, (2, 20, columns), classes, 5), rng, -1)
        layout = torch.channels_last if last else torch.contiguous_format
        name = f"{dtype}, {classes} classes, {columns} columns, {layout}"
        yield name, (logits.contiguous(memory_format=layout), target, -1, columns == 33, classes == 19)


def check_triton(device: torch.device) -> None:
    """The kernel that serves ``count_logits``, and that in Triton, give the bits of the CPU kernel."""
    served: dict[str, Callable[..., Any]] = {"served": call("count_logits")}
    if device.type == "cuda":
        served |= dict(ROWS["count_logits"].others)
    for name, arguments in triton_cases():
        expected = call("count_logits")(*arguments)
        for kind, kernel in served.items():
            placed = place(ROWS["count_logits"], Example("", arguments), device)
            if text := differences(kernel(*placed), expected):
                raise Disagreement(f"{kind}, {name}: {text}")
    only_rehearsed(device, "Triton")
    if "Triton" not in served:
        kind = next(op.cuda.kind for op in backends() if op.name == "count_logits")
        raise Unavailable(f"Triton is not installed: {kind} served count_logits, and agrees")
