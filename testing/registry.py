"""One row per op: small arguments that decide parity, and arguments at the scale of a dataset that are timed.

Arguments are made on the CPU; :func:`place` moves them. ``benchmarks/bench_ops.py`` times the rows on the CPU,
``benchmarks/gpu_check.py`` on a GPU; both give no number unless :func:`disagreement` finds none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from testing import examples_box_iou as box_iou
from testing import examples_boxes as upright
from testing import examples_cosines as cosines
from testing import examples_grouped as grouped
from testing import examples_histogram as sweeps
from testing import examples_keypoints as keypoints
from testing import examples_labels as labels
from testing import examples_masks as dense
from testing import examples_one_hot as one_hot
from testing import examples_overlaps as overlaps
from testing import examples_panoptic as panoptic
from testing import examples_pixels as pixels
from testing import examples_polygon_iou as polygon_iou
from testing import examples_polygons as polygons
from testing import examples_queries as queries
from testing import examples_ranks as ranked
from testing import examples_records as hand_made
from testing import examples_resampled as resampled
from testing import examples_resampling as resampling
from testing import examples_rotated as rotated
from testing import examples_runs as runs
from testing import examples_surface as surfaces
from testing import examples_tokens as tokens
from testing import formats
from testing.datasets import BoxDataset
from testing.pairs import random_pairs, to_tensors
from testing.parity import differences
from testing.scenes import COCO_AREAS, COCO_THRESHOLDS, random_scene
from valor_gpu.ops import backends
from valor_gpu.ops._launch import has_triton
from valor_gpu.ops._library import NAMESPACE, Op
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    CHECK_SCORES,
    CROWD,
    GROUP,
    GROUP_OF,
    HASHED,
    IGNORED,
    USER_INPUT,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
    to_arguments,
)
from valor_gpu.ops.pixel_counts import op as pixel_counts

Arguments = tuple[Any, ...]
SIZES = (0, 1, 31, 33, 1000)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Example:
    """Arguments of an op.

    Attributes:
        name: what is special about them.
        arguments: of the registered op, on the CPU.
        native_only: the reference takes seconds, or raises an error; the native kernels are compared with one another.
        host: further arguments that stay on the CPU here.
        output: the only output that is defined, None for all.
    """

    name: str
    arguments: Arguments
    native_only: bool = False
    host: frozenset[str] = frozenset()
    output: int | None = None


def tuple_of(result: Any) -> tuple[Any, ...]:
    """The tensors of a result."""
    return tuple(pytree.tree_leaves(result))


@dataclass(frozen=True)
class Row:
    """One op.

    Attributes:
        op: its registered name.
        examples: arguments that decide parity; with True only those that take milliseconds.
        load: arguments at the scale of a scene.
        host: arguments that stay on the CPU, since their values shape allocations.
        defined: what of a result is defined, all of it by default.
        others: further kernels of the op by kind, which are timed beside the one that serves CUDA tensors.
    """

    op: str
    examples: Callable[[bool], Iterator[Example]]
    load: Callable[[BoxDataset], Arguments]
    host: frozenset[str] = frozenset()
    defined: Callable[[Any], Any] = tuple_of
    others: tuple[tuple[str, Callable[..., Any]], ...] = ()


def find(name: str) -> Op:
    """The registered op ``name``."""
    return next(op for op in backends() if op.name == name)


@cache
def call(name: str) -> torch._ops.OpOverload[..., Any]:
    """What the dispatcher runs for op ``name``."""
    backends()  # imports every module of ops
    return getattr(getattr(torch.ops, NAMESPACE), name).default  # type: ignore[no-any-return]


def place(row: Row, example: Example, device: torch.device) -> Arguments:
    """The arguments with every tensor on ``device`` but those that must stay on the CPU."""
    names = [argument.name for argument in call(row.op)._schema.arguments]
    return tuple(
        value if name in row.host | example.host else pytree.tree_map_only(Tensor, lambda t: t.to(device), value)
        for name, value in zip(names, example.arguments)
    )


def disagreement(row: Row, example: Example, device: torch.device) -> str:
    """How the kernel on ``device`` differs from the reference, and from the CPU kernel; empty when it does not."""
    kernels = {} if example.native_only else {"the reference": find(row.op).reference}
    if device.type != "cpu":
        kernels["the CPU kernel"] = call(row.op)
    got = _outputs(row, call(row.op)(*place(row, example, device)), example)
    for name, kernel in kernels.items():
        if text := differences(got, _outputs(row, kernel(*example.arguments), example)):
            return f"against {name}: {text}"
    return ""


def _outputs(row: Row, result: Any, example: Example) -> tuple[Any, ...]:
    outputs = row.defined(result)
    return outputs if example.output is None else (outputs[example.output],)


def moved_bytes(*values: Any) -> int:
    """Bytes of all tensors in nested values: what an op must read and write at least."""
    return sum(leaf.numel() * leaf.element_size() for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor))


# -------------------------------------------------------------------------------------------------------- assign

_USUAL = HASHED | CHECK_SCORES | USER_INPUT
_MATCH_RULES: dict[str, tuple[Any, ...]] = {
    "as evaluated": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], USER_INPUT),
    "with hashes and matches": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], _USUAL | WANT_MATCHES),
    "class-agnostic": (COCO_THRESHOLDS, COCO_AREAS, [1, 10, 100], _USUAL | AGNOSTIC),
    "one setting": ([0.5], [[0, 1e10]], [100], _USUAL),
    "Open Images": ([0.5, 0.25], [[-np.inf, np.inf], [0, 1024]], [2**31 - 1], _USUAL ^ USER_INPUT, GROUP_OF),
    "148 settings, unsorted": (np.linspace(0.9, 0.1, 37), COCO_AREAS, [1, 3], _USUAL | WANT_MATCHES),
}


def _match_arguments(batch: MatchBatch, rule: str = "with hashes and matches") -> Arguments:
    return to_arguments(batch, MatchRule.make(*_MATCH_RULES[rule]), torch.from_numpy)


def _flat(batch: MatchBatch) -> MatchBatch:
    """The batch as one tensor for all images."""
    empty = {"boxes": torch.zeros(0, 4, dtype=torch.float64), "gt_boxes": torch.zeros(0, 4, dtype=torch.float64)}
    empty |= {name: torch.zeros(0, dtype=torch.float64) for name in ("scores", "gt_areas")}
    empty |= {name: torch.zeros(0, dtype=torch.int64) for name in ("labels", "gt_labels", "gt_flags")}
    whole = {name: [torch.cat([like, *getattr(batch, name)])] for name, like in empty.items()}
    return MatchBatch(**{**vars(batch), **whole})


def _padded(batch: MatchBatch, room: int) -> MatchBatch:
    """The batch as flattened padded tensors with ``room`` rows per image more than its longest, and counts."""
    flat, sizes = _flat(batch), batch.lengths
    wide = [int(size.max()) + room for size in sizes]

    def pad(name: str, side: int) -> list[Tensor]:
        (rows,) = getattr(flat, name)
        slots = torch.arange(wide[side]) < sizes[side][:, None]
        out = rows.new_full((*slots.shape, *rows.shape[1:]), 1)
        out[slots] = rows
        return [out.flatten(0, 1)]

    lists = {name: pad(name, 0) for name in ("boxes", "scores", "labels")}
    lists |= {name: pad(name, 1) for name in ("gt_boxes", "gt_labels", "gt_flags", "gt_areas")}
    lengths = torch.tensor([[size] * sizes.shape[1] for size in wide])
    counts = {"counts": sizes[0].clone(), "gt_counts": sizes[1].clone(), "lengths": lengths}
    return MatchBatch(**{**vars(batch), **lists, **counts})


def _crowded(rng: np.random.Generator, rows: int, gt_rows: int) -> MatchBatch:
    """One image of one class whose boxes and scores come from a few values: ties everywhere."""
    sizes = ((rows, 4), (gt_rows, 4))
    boxes, gt_boxes = (torch.from_numpy(rng.integers([0, 0, 30, 30], [9, 9, 39, 39], size) / 1.0) for size in sizes)
    zeros = [torch.zeros(count, dtype=torch.int64) for count in (rows, gt_rows)]
    return MatchBatch(
        torch.tensor([[rows], [gt_rows]]), [boxes], [torch.from_numpy(rng.integers(1, 5, rows) / 4)], [zeros[0]],
        gt_boxes=[gt_boxes], gt_labels=[zeros[1]], gt_flags=[(torch.arange(gt_rows) % 7 == 0).long()],
        box_format=1, gt_box_format=1,
    )  # fmt: skip


def _match_examples(quick: bool) -> Iterator[Example]:
    def scene(images: int, **choices: Any) -> MatchBatch:
        return random_scene(np.random.default_rng([images, len(choices)]), images=images, **choices).batch()

    for rule in _MATCH_RULES:
        yield Example(rule, _match_arguments(scene(3, most=12), rule))
    for dtype in FLOATS:
        yield Example(f"{dtype}", _match_arguments(scene(3, dtype=dtype, most=12)))
    yield Example("no image", _match_arguments(_flat(scene(0))), native_only=True)
    yield Example("one image", _match_arguments(scene(1)))
    yield Example("flat", _match_arguments(_flat(scene(5, most=9))))
    yield Example("padded", _match_arguments(_padded(scene(5, most=9), room=3)))
    keyed = MatchBatch(**{**vars(scene(3)), "image_ids": [torch.tensor([5, -1, 1 << 40])]})
    yield Example("ids on the host", _match_arguments(keyed), host=frozenset({"image_ids"}))
    keyed = MatchBatch(**{**vars(scene(3)), "image_ids": [torch.tensor([key]) for key in (5, 0, 7)]})
    yield Example("ids on the device", _match_arguments(keyed))
    wrong = scene(3, most=9)
    wrong.scores[-1][...] = torch.nan
    yield Example("NaN scores", _match_arguments(wrong), output=Matched._fields.index("error"))
    ties = _crowded(np.random.default_rng(0), 33, 31)
    yield Example("ties", _match_arguments(ties))
    flags = torch.tensor([0, 0, CROWD, CROWD | GROUP, IGNORED, CROWD | GROUP | IGNORED]).repeat(6)[:31]
    grouped = MatchBatch(**{**vars(ties), "gt_flags": [flags]})
    yield Example("ties and groups", _match_arguments(grouped, "Open Images"))
    for rule in ("with hashes and matches", "148 settings, unsorted"):
        pairs = random_pairs(np.random.default_rng(7), MatchRule.make(*_MATCH_RULES[rule]), room=2)
        yield Example(f"stored pairs, {rule}", _match_arguments(to_tensors(pairs), rule))
    yield from () if quick else _large_match_examples(scene)


def _large_match_examples(scene: Callable[..., MatchBatch]) -> Iterator[Example]:
    for images in SIZES[2:]:
        yield Example(f"{images} images", _match_arguments(scene(images)), native_only=images == SIZES[-1])
        flat = _match_arguments(_flat(scene(images)), "as evaluated")
        yield Example(f"{images} images, flat", flat, native_only=True)
        yield Example(f"{images} images, padded", _match_arguments(_padded(scene(images), room=0)), native_only=True)
    huge = _crowded(np.random.default_rng(1), 3000, 700)
    yield Example("one huge image", _match_arguments(huge), native_only=True)


def _match_load(scene: BoxDataset) -> Arguments:
    whole = formats.columns(scene)
    gt_rows, rows = (np.diff(ends) for ends in formats.row_ends(scene))
    batch = MatchBatch(
        torch.from_numpy(np.stack([rows, gt_rows])), [whole.boxes], [whole.scores], [whole.labels],
        gt_boxes=[whole.gt_boxes], gt_labels=[whole.gt_labels], gt_flags=[whole.crowd], image_ids=[whole.image_ids],
    )  # fmt: skip
    return _match_arguments(batch, "as evaluated")


def _named(pairs: Callable[[bool], Iterator[tuple[str, Arguments]]]) -> Callable[[bool], Iterator[Example]]:
    return lambda quick: (Example(name, arguments) for name, arguments in pairs(quick))


ROWS = {
    row.op: row
    for row in (
        Row("box_iou", _named(box_iou.examples), box_iou.load, frozenset({"offsets"})),
        Row(
            *("box_pairs", _named(upright.examples), upright.load), host=frozenset({"lengths"}), defined=rotated.defined
        ),
        Row(
            *("assign", _match_examples, _match_load),
            host=frozenset({"lengths", "thresholds", "area_ranges", "limits"}),
        ),
        Row("label_counts", _named(hand_made.label_counts_examples), hand_made.label_counts_load),
        Row("count_ground_truths", _named(hand_made.count_examples), hand_made.count_load),
        Row(
            *("order_records", _named(hand_made.order_examples), hand_made.order_load),
            host=frozenset({"starts", "lengths"}),
        ),
        Row(
            *("precision_recall", _named(hand_made.curve_examples), hand_made.curve_load),
            host=frozenset({"recall_thresholds"}),
        ),
        Row(
            *("accumulate", _named(hand_made.accumulate_examples), hand_made.accumulate_load),
            host=frozenset({"recall_thresholds", "picks", "pick_thresholds", "labels", "wanted_images"}),
        ),
        Row("draw_weights", _named(resampling.draw_examples), resampling.draw_load),
        Row(
            *("resampled_means", _named(resampled.resampled_examples), resampled.resampled_load),
            host=frozenset({"recall_thresholds", "picks", "pick_thresholds"}),
        ),
        Row(
            *("grouped_means", _named(grouped.grouped_examples), grouped.grouped_load),
            host=frozenset(
                {
                    "units",
                    "group_offsets",
                    "group_units",
                    "labels",
                    "recall_thresholds",
                    "picks",
                    "pick_thresholds",
                    "class_picks",
                    "class_thresholds",
                }
            ),
        ),
        Row("pack_masks", _named(dense.pack_examples), dense.pack_load),
        Row("mask_boundary", _named(dense.boundary_examples), dense.boundary_load),
        Row(
            *("dense_pairs", _named(dense.pair_examples), dense.pair_load),
            host=frozenset({"lengths"}),
            defined=rotated.defined,
        ),
        Row(
            *("present_means", _named(hand_made.means_examples), hand_made.means_load),
            host=frozenset({"picks", "thresholds"}),
        ),
        Row("count_outcomes", _named(hand_made.outcome_examples), hand_made.outcome_load),
        Row("count_top", _named(labels.count_top_examples), labels.count_top_load),
        Row("confuse_scores", _named(labels.confuse_examples), labels.confuse_load),
        Row("predict_maps", _named(labels.map_examples), labels.map_load),
        Row("top_classes", _named(labels.top_examples), labels.top_load),
        Row("count_labels", _named(labels.pair_examples), labels.pair_load),
        Row("count_pairs", _named(labels.pair_examples), labels.pair_load),
        Row("first_in_cells", _named(labels.cell_examples), labels.cell_load),
        Row("count_pixels", _named(pixels.pixel_examples), pixels.pixel_load),
        Row(
            *("count_logits", _named(pixels.logit_examples), pixels.logit_load),
            others=(("Triton", pixel_counts._count_logits_triton),) if has_triton() else (),
        ),
        Row("rank_overlaps", _named(overlaps.rank_examples), overlaps.rank_load),
        Row("confuse_overlaps", _named(overlaps.confuse_examples), overlaps.confuse_load, frozenset({"thresholds"})),
        Row("count_panoptic", _named(panoptic.panoptic_examples), panoptic.panoptic_load),
        Row("count_one_hot", _named(one_hot.one_hot_examples), one_hot.one_hot_load),
        Row("score_histogram", _named(sweeps.examples), sweeps.load, frozenset({"thresholds"})),
        Row("auroc_and_ap", _named(ranked.examples), ranked.load),
        Row("keypoint_similarity", _named(keypoints.similarity_examples), keypoints.similarity_load),
        Row(
            *("keypoint_pairs", _named(keypoints.pair_examples), keypoints.pair_load),
            host=frozenset({"lengths"}),
            defined=keypoints.defined,
        ),
        Row("rotated_iou", _named(rotated.iou_examples), rotated.iou_load),
        Row(
            *("rotated_pairs", _named(rotated.pair_examples), rotated.pair_load),
            host=frozenset({"lengths"}),
            defined=rotated.defined,
        ),
        Row("polygon_iou", _named(polygon_iou.iou_examples), polygon_iou.iou_load),
        Row(
            *("polygon_pairs", _named(polygon_iou.pair_examples), polygon_iou.pair_load),
            host=frozenset({"lengths"}),
            defined=rotated.defined,
        ),
        Row("rasterise", _named(polygons.examples), polygons.load, defined=polygons.defined),
        Row(
            *("run_pairs", _named(runs.pair_examples), runs.pair_load),
            host=frozenset({"lengths"}),
            defined=rotated.defined,
        ),
        Row("rank_curves", _named(ranked.examples), ranked.load),
        Row("query_order", _named(queries.order_examples), queries.order_load, defined=queries.defined),
        Row("query_scores", _named(queries.score_examples), queries.score_load),
        Row("query_hits", _named(queries.hits_examples), queries.hits_load),
        Row("surface_distances", _named(surfaces.examples), surfaces.load),
        Row(
            *("greedy_cosines", _named(cosines.examples), cosines.load),
            host=frozenset({"offsets"}),
            defined=cosines.defined,
        ),
        Row("sum_token_losses", _named(tokens.examples), tokens.load),
    )
}
"""Every registered op must have a row here: ``tests/benchmarks/test_detection.py`` looks."""
