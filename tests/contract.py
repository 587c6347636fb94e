"""The table of all metrics of valor_gpu, over which the contract is checked.

To add a metric, append a :class:`Case` to ``METRICS``: functions that make the metric in two configurations, that make
batches (the arguments of ``update``, as a tuple, on the CPU), and one batch for which ``update`` raises an error. Every
check of ``tests/contract_checks.py`` then runs on it in one process on every device, and every check of
``tests/contract_ranks.py`` in three processes. Nothing else has to be written; a check that does not suit a metric is a
reason to look at the metric. ``-k NAME`` runs the checks of one metric alone, in three processes too.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tests.contents import content, expect
from tests.contract_boxes import (
    AP_CHOICES,
    LOW,
    PAIR_CHOICES,
    SHAPE_CHOICES,
    bad_boxes,
    bad_groups,
    boxes_batch,
    drawn,
    drawn_batch,
    infinite_boxes,
    open_images_batch,
    turned,
    turned_batch,
)
from tests.contract_documents import document_rows
from tests.contract_groups import group_rows
from tests.contract_overlaps import overlap_rows
from tests.contract_panoptic import OTHER, PANOPTIC, panoptic_batch, unknown_batch
from tests.contract_regions import region_rows
from tests.contract_regression import regression_rows
from tests.contract_regression_rows import row_metric_rows
from tests.contract_scores import CLASS_CHOICES, bad_scores, scores_batch
from tests.contract_surfaces import surface_rows
from tests.contract_texts import TEXT_CHOICES, text_batch
from tests.contract_tokens import token_rows
from valor_gpu import classification, detection, segmentation, text
from valor_gpu.detection import BinnedMeanAveragePrecision, MeanAveragePrecision, OpenImagesAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.result import Result, Signature
from valor_gpu.state import State, joined, least, summed

Batch = tuple[Any, ...]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Passes(State):
    """Records of a threshold test: every kind of field, one with rows of more than one dimension."""

    pairs: Tensor = joined()  # float64 [N, 2]: score, label
    passed: Tensor = joined()  # uint8 [N]
    per_label: Tensor = summed()  # int64 [4]
    lowest: Tensor = least()  # float64 []


_UNIT = 2.0**30


class PassRate(Metric[Passes]):
    """Share of scores that reach a threshold; ``arrival`` also tells which score came first."""

    higher_is_better = True

    def __init__(self, threshold: float = 0.5, arrival: bool = False, **kwargs: Any) -> None:
        empty = Passes(
            torch.zeros((0, 2), dtype=torch.float64),
            torch.zeros(0, dtype=torch.uint8),
            torch.zeros(4, dtype=torch.int64),
            torch.tensor(math.inf, dtype=torch.float64),
        )
        super().__init__(empty, {"threshold": threshold, "arrival": arrival}, **kwargs)
        self.threshold = threshold
        self.arrival = arrival

    def update(self, scores: Tensor, labels: Tensor) -> None:
        if scores.device.type == "cpu" and bool(scores.isnan().any()):
            raise InputError("scores must not be NaN")
        lowest = torch.cat((scores.double(), scores.new_tensor([math.inf]).double())).amin()
        passed = (scores >= self.threshold).to(torch.uint8)
        self._add(
            Passes(torch.stack((scores.double(), labels.double()), 1), passed, labels.bincount(minlength=4), lowest)
        )

    def compute(self) -> dict[str, Tensor]:
        return self._reduce(self.state())

    def result(self) -> Result:
        with self.synced_state() as state:
            values = self._reduce(state)
            reasons = {} if len(state.passed) else {name: "no scores" for name in values if values[name].isnan().any()}
            return Result(values, Signature({"threshold": self.threshold}), {"scores": len(state.passed)}, reasons)

    def _reduce(self, state: Passes) -> dict[str, Tensor]:
        scores = state.pairs[:, 0]
        values = {
            "rate": _mean(state.passed.long()),
            "mean": _mean((scores * _UNIT).round().long()) / _UNIT,  # integers: the same sum in any order
            "lowest": state.lowest,
            "per_label": state.per_label,
        }
        return values | {"first": scores[:1].sum()} if self.arrival else values


def _mean(values: Tensor) -> Tensor:
    """Float64 mean of integers; divided by a tensor, since CUDA multiplies by the reciprocal of a number."""
    return values.sum().double() / torch.tensor(len(values), dtype=torch.float64, device=values.device)


def _pass_batch(seed: int, size: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator), torch.randint(4, (size,), generator=generator)


def join_batches(batches: Sequence[Batch]) -> Batch:
    """The batches as one: lists are chained, tensors concatenated."""
    return tuple(
        torch.cat(parts) if isinstance(parts[0], Tensor) else [item for part in parts for item in part]
        for parts in zip(*batches, strict=True)
    )


@dataclass(frozen=True)
class Case:
    """A metric in the table.

    Attributes:
        name: shown in test ids.
        make: takes the keywords of ``torchmetrics.Metric``, gives a new metric.
        other: the same class in a configuration whose value differs on these batches.
        batch: the batch of this number: a few samples, different for every number.
        empty: a batch without samples.
        single: a batch of one sample.
        bad: a batch for which ``update`` raises :class:`InputError`, at once on the CPU.
        order_free: whether the value depends on the samples alone and not on their order.
        single_like_empty: why the value of one sample may equal the value of none, where no batch can be chosen
            for which it differs.
        join: one batch of several.
    """

    name: str
    make: Callable[..., Metric[Any]]
    other: Callable[..., Metric[Any]]
    batch: Callable[[int], Batch]
    empty: Callable[[], Batch]
    single: Callable[[], Batch]
    bad: Callable[[], Batch]
    order_free: bool = True
    single_like_empty: str = ""
    join: Callable[[Sequence[Batch]], Batch] = join_batches


def _class_case(name: str) -> Case:
    metric, (choices, other) = getattr(classification, name.partition("-")[0]), CLASS_CHOICES[name]
    columns = next((key for key in choices if key in ("num_classes", "num_labels")), "")
    batch = partial(scores_batch, columns)
    return Case(
        name=f"{name}-labels" if name in TEXT_CHOICES else name,
        make=partial(metric, **choices),
        other=partial(metric, **other),
        batch=batch,
        empty=partial(batch, 0, 0),
        single=partial(batch, 7, 1, (20,)),
        bad=partial(bad_scores, columns),
    )


def _samplewise_case(name: str) -> Case:
    """A metric with one value for each sample, in the order of the samples."""
    case = _class_case(name)
    make, other = (partial(kind, multidim_average="samplewise") for kind in (case.make, case.other))
    return replace(case, name=f"{case.name}-samplewise", make=make, other=other, order_free=False)


def squad_batch(preds: Sequence[str], target: Sequence[Any], seed: int = 0) -> Batch:
    """Rows of texts as questions and answers."""
    answers = [{"prediction_text": pred, "id": (seed, i)} for i, pred in enumerate(preds)]
    return answers, [{"answers": {"text": [right]}, "id": (seed, i)} for i, right in enumerate(target)]


def _text_case(name: str) -> Case:
    choices, other = TEXT_CHOICES[name]

    def batch(seed: int, size: int = 6) -> Batch:
        rows = text_batch(seed, size)
        return squad_batch(*rows, seed) if name == "SQuAD" else rows

    bad = squad_batch(["a cat"], []) if name == "SQuAD" else (["a cat", "a mat"], ["a cat", None])
    return Case(
        name=name,
        make=partial(getattr(text, name), **choices),
        other=other,
        batch=batch,
        empty=lambda: ([], []),
        single=partial(batch, 7, 1),
        bad=lambda: bad,
    )


METRICS = [
    Case(
        name="PassRate",
        make=PassRate,
        other=partial(PassRate, 0.25),
        batch=_pass_batch,
        empty=partial(_pass_batch, 0, 0),
        single=partial(_pass_batch, 7, 1),
        bad=lambda: (torch.tensor([0.5, math.nan]), torch.tensor([1, 2])),
    ),
    Case(
        name="PassRate-arrival",
        make=partial(PassRate, 0.5, True),
        other=partial(PassRate, 0.75, True),
        batch=_pass_batch,
        empty=partial(_pass_batch, 0, 0),
        single=partial(_pass_batch, 7, 1),
        bad=lambda: (torch.tensor([math.nan]), torch.tensor([1])),
        order_free=False,
    ),
    *(
        Case(
            name=f"MeanAveragePrecision-{name}",
            make=partial(MeanAveragePrecision, "xywh", **choices),
            other=partial(MeanAveragePrecision, "xywh", iou_thresholds=LOW, **choices),
            batch=partial(boxes_batch, ids=name != "arrival"),
            empty=lambda: ([], []),
            single=partial(boxes_batch, 7, images=1),
            bad=bad_boxes,
            order_free=name != "arrival",
        )
        for name, choices in AP_CHOICES.items()
    ),
    *(
        Case(
            name=name,
            make=partial(getattr(detection, name), "xywh", **choices),
            other=partial(getattr(detection, name), "xywh", 0.25, **choices),
            batch=boxes_batch,
            empty=lambda: ([], []),
            single=partial(boxes_batch, 6, images=1),
            bad=infinite_boxes,
        )
        for name, choices in PAIR_CHOICES.items()
    ),
    Case(
        name="BinnedMeanAveragePrecision",
        make=partial(BinnedMeanAveragePrecision, 4, "xywh", bins=4),
        other=partial(BinnedMeanAveragePrecision, 4, "xywh", iou_thresholds=LOW, bins=4),
        batch=partial(boxes_batch, ids=True),
        empty=lambda: ([], []),
        single=partial(boxes_batch, 6, images=1),
        bad=bad_boxes,
    ),
    Case(
        name="OpenImagesAveragePrecision",
        make=partial(OpenImagesAveragePrecision, {1: 0}, box_format="xywh", expand_detections=True),
        other=partial(OpenImagesAveragePrecision, {1: 0}, box_format="xywh", expand_detections=True, group_weight=0),
        batch=open_images_batch,
        empty=lambda: ([], []),
        single=partial(open_images_batch, 7, images=1),
        bad=bad_groups,
    ),
    *(
        Case(
            name=f"MeanAveragePrecision-rotated-{name}",
            make=partial(MeanAveragePrecision, "cxcywha", "rotated", **choices),
            other=partial(MeanAveragePrecision, "cxcywha", "rotated", angle_unit="radians", **choices),
            batch=turned_batch,
            empty=lambda: ([], []),
            single=partial(turned_batch, 7, images=1),
            bad=lambda: turned(bad_boxes()),
        )
        for name, choices in AP_CHOICES.items()
        if name != "arrival"
    ),
    *(
        Case(
            name=f"MeanAveragePrecision-{name}",
            make=partial(MeanAveragePrecision, "xywh", **choices),
            other=partial(MeanAveragePrecision, "xywh", **{**choices, **other}),
            batch=drawn_batch,
            empty=lambda: ([], []),
            single=partial(drawn_batch, 7, images=1),
            bad=lambda: drawn(bad_boxes()),
        )
        for name, (choices, other) in SHAPE_CHOICES.items()
    ),
    *(
        Case(
            name=f"{name} of kept images" if keep else name,
            make=partial(getattr(segmentation, name), keep_images=keep, **PANOPTIC),
            other=partial(getattr(segmentation, name), keep_images=keep, **other),
            batch=panoptic_batch,
            empty=partial(panoptic_batch, 0, 0),
            single=partial(panoptic_batch, 7, 1),
            bad=unknown_batch,
        )
        for name, other in OTHER.items()
        for keep in (False, True)
    ),
    *(Case(**row) for row in (*overlap_rows(), *region_rows(), *surface_rows(), *token_rows())),
    *(Case(**row) for row in (*regression_rows(), *row_metric_rows(), *group_rows(), *document_rows())),
    *map(_class_case, CLASS_CHOICES),
    *map(_samplewise_case, ("Recall", "HammingDistance", "ExactMatch")),
    *map(_text_case, TEXT_CHOICES),
]


def place(value: Any, device: torch.device) -> Any:
    """A copy of ``value`` with every tensor in it on ``device``."""
    if type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    if isinstance(value, Mapping):
        return {key: place(part, device) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(place(part, device) for part in value)
    return copy.deepcopy(value)


def updated(metric: Metric[Any], batches: Sequence[Batch], device: torch.device = CPU) -> Metric[Any]:
    """``metric`` on ``device``, updated with copies of ``batches``."""
    metric = metric.to(device)
    for batch in batches:
        metric.update(*place(batch, device))
    return metric


def value_of(case: Case, batches: Sequence[Batch], device: torch.device = CPU, **kwargs: Any) -> Any:
    """Content of the value of a new metric in one process, updated once with all ``batches`` as one."""
    alone = case.make(distributed_available_fn=lambda: False, **kwargs)
    return content(updated(alone, [case.join(batches)], device).compute())


def condition(metric: Metric[Any]) -> Any:
    """Everything of a metric that a failure must leave alone."""
    return content(metric.state().tensors()), metric.update_count, int(metric.error), metric._is_synced, metric._to_sync


@contextmanager
def unchanged(metric: Metric[Any]) -> Iterator[None]:
    """Fails unless the metric is afterwards as it was before."""
    before = condition(metric)
    yield
    expect(condition(metric), before)


def failing(*_: object, **__: object) -> Any:
    """In the place of a method: raises."""
    raise RuntimeError("failed on purpose")


@contextmanager
def unchanged_but_state(metric: Metric[Any]) -> Iterator[None]:
    """As ``unchanged`` while the method ``state`` is replaced."""
    replaced = metric.state
    del metric.state
    with unchanged(metric):
        metric.state = replaced
        yield
        del metric.state
    metric.state = replaced
