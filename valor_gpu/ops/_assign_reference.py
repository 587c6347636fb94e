"""Plain-torch definition of ``assign``: one image, one setting, one detection at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import NO_ERROR, pack_box
from valor_gpu.ops.match_batch import (
    AGNOSTIC,
    CHECK_SCORES,
    CROWD,
    FREE,
    HASHED,
    ID_ZERO,
    IGNORED,
    UNMATCHED_IGNORED,
    USER_INPUT,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
)


@dataclass(frozen=True)
class _Rule:
    thresholds: list[float]
    areas: list[list[float]]
    limits: list[int]
    formats: list[int]
    options: int

    @property
    def settings(self) -> list[tuple[int, int]]:
        """(area range, threshold) of every setting."""
        return [(a, t) for a in range(len(self.areas)) for t in range(len(self.thresholds))]

    def outside(self, area: float, a: int) -> bool:
        return area < self.areas[a][0] or area > self.areas[a][1]


@dataclass(frozen=True)
class _Image:
    """One image, boxes as float64 xywh."""

    boxes: Tensor
    scores: Tensor
    labels: Tensor
    areas: Tensor
    flags: Tensor
    gt_boxes: Tensor
    gt_labels: Tensor
    gt_flags: Tensor
    gt_areas: Tensor

    def empty(self) -> _Image:
        return _Image(*(getattr(self, f.name)[:0] for f in fields(self)))


def _xywh(boxes: Tensor, box_format: int) -> Tensor:
    """float64 ``[N, 4]`` xywh, converted in the dtype of ``boxes`` but at least float32, as torchvision does."""
    wide = boxes if boxes.dtype == torch.float64 else boxes.float()
    x, y, w, h = wide.reshape(-1, 4).unbind(1)
    if box_format == 2:
        x, y, w, h = x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h
    if box_format != 1:
        w, h = w - x, h - y
    return torch.stack((x, y, w, h), 1).double()


def _cut(tensors: list[Tensor], lengths: list[int], width: int = 1) -> list[Tensor]:
    """One tensor per image, from a list that already is, or from one tensor for all."""
    if len(tensors) == len(lengths):
        return tensors
    flat = tensors[0].reshape(-1, width) if width > 1 else tensors[0].reshape(-1)
    return list(flat.split(lengths))


def _iou(d: list[float], g: list[float], crowd: bool) -> float:
    """Intersection over union of two xywh boxes, over the detection's area for a crowd."""
    w = min(d[0] + d[2], g[0] + g[2]) - max(d[0], g[0])
    h = min(d[1] + d[3], g[1] + g[3]) - max(d[1], g[1])
    if w <= 0 or h <= 0:
        return 0.0
    inter = w * h
    return inter / (d[2] * d[3] if crowd else d[2] * d[3] + g[2] * g[3] - inter)


def _logical_shift(x: Tensor, by: int) -> Tensor:
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Tensor) -> Tensor:
    """Finaliser of splitmix64 on int64 words (two's complement arithmetic wraps as unsigned does)."""
    x = (x ^ _logical_shift(x, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    x = (x ^ _logical_shift(x, 27)) * (0x94D049BB133111EB - (1 << 64))
    return x ^ _logical_shift(x, 31)


def _fold(state: Tensor, word: Tensor) -> Tensor:
    return (state ^ word) * (0x9E3779B97F4A7C15 - (1 << 64)) + _logical_shift(state, 29)


def _bits(values: Tensor) -> Tensor:
    return values.double().contiguous().view(torch.int64)


def _hash_boxes(seed: Tensor, boxes: Tensor, tail: Tensor) -> Tensor:
    """Sum of row hashes, a 64-bit word."""
    state = seed
    for column in range(4):
        state = _fold(state, _bits(boxes[:, column]))
    return _mix(_fold(state, tail)).sum()


def _hashes(image: _Image) -> tuple[Tensor, Tensor]:
    """(hash of the ground truths, free of their order; hash of the detections)."""
    seed = torch.full_like(image.gt_labels, 0x51AFD7ED558CCD6D)
    tail = _fold(_bits(image.gt_areas), image.gt_labels << 3 | (image.gt_flags & 7))
    truths = _hash_boxes(seed, image.gt_boxes, tail)
    rows = torch.arange(1, len(image.labels) + 1, device=image.labels.device)
    records = _hash_boxes(_mix(rows), image.boxes, _fold(_bits(image.scores), image.labels))
    return truths, records


def _negative_sizes(boxes: Tensor) -> Tensor:
    """int64 ``[]``: boxes of negative width or height."""
    return (boxes[:, 2:] < 0).any(1).sum()


def _reach(boxes: Tensor) -> Tensor:
    """int64 ``[]``: the float32 bits of the largest coordinate as a size, 0 without boxes."""
    return torch.cat((boxes.reshape(-1).abs(), boxes.new_zeros(1))).max().float().view(torch.int32).long()


def _pair(low: Tensor, high: Tensor) -> Tensor:
    """int64 ``[]`` of two words of 32 bits."""
    return low | high << 32


def _first_error(image: _Image, raw_area: Tensor | None, options: int) -> int:
    """(row, code) of the first bad row, detections before ground truths on a tie; ``NO_ERROR`` if there is none."""
    int32 = torch.iinfo(torch.int32)
    wide = [(x < int32.min) | (x > int32.max) for x in (image.labels, image.gt_labels)]
    bad = [
        (1, ~image.boxes.isfinite().all(1)),
        (2, image.scores.isnan() & bool(options & CHECK_SCORES)),
        (3, wide[0]),
        (4, ~image.gt_boxes.isfinite().all(1)),
        (5, wide[1]),
        (6, torch.zeros_like(wide[1]) if raw_area is None else _bad_areas(raw_area, options)),
        (7, ((image.gt_flags < 0) | (image.gt_flags > 1)) & bool(options & USER_INPUT)),
    ]
    found = [pack_box(0, int(mask.nonzero()[0]), code) for code, mask in bad if bool(mask.any())]
    return min(found, default=NO_ERROR)


def _bad_areas(area: Tensor, options: int) -> Tensor:
    """Whether areas are NaN or, from a user, infinite."""
    return ~area.isfinite() if options & USER_INPUT else area.isnan()


def _descending(scores: list[float]) -> list[int]:
    """Positions by descending score, input order on ties, NaN last."""
    return sorted(
        range(len(scores)), key=lambda i: (scores[i] != scores[i], -scores[i] if scores[i] == scores[i] else 0)
    )


def _match_setting(
    rule: _Rule, image: _Image, ious: list[list[float]], kept: list[int], setting: tuple[int, int]
) -> dict[int, tuple[bool, bool, int]]:
    """(matched, ignored, ground truth) of each kept detection in one setting."""
    a, t = setting
    flags, labels = image.gt_flags.tolist(), image.gt_labels.tolist()
    ignored = [bool(f & (CROWD | IGNORED)) or rule.outside(s, a) for f, s in zip(flags, image.gt_areas.tolist())]
    frees, areas, names = image.flags.tolist(), image.areas.tolist(), image.labels.tolist()
    taken = [False] * len(flags)
    out = {}
    for d in kept:
        free = [
            g for g in range(len(flags))
            if (rule.options & AGNOSTIC or labels[g] == names[d])
            and (not taken[g] or flags[g] & CROWD) and ious[d][g] >= rule.thresholds[t]
        ]  # fmt: skip
        best = max(free, key=lambda g: (not ignored[g], ious[d][g], g), default=-1)
        matched = best >= 0 and not flags[best] & ID_ZERO
        out_of_range = rule.outside(areas[d], a) or bool(frees[d] & UNMATCHED_IGNORED)
        out[d] = (matched, (best >= 0 and ignored[best]) or (not matched and out_of_range), best)
        if best >= 0 and not frees[d] & FREE:
            taken[best] = True
    return out


def _pack(bits: list[bool]) -> list[int]:
    """Bits to bytes, least significant first."""
    return [sum(int(bit) << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)]


def _ranks(image: _Image, agnostic: bool) -> dict[int, int]:
    """Rank of each detection in its cell, in order of descending score."""
    seen: dict[int, int] = {}
    ranks = {}
    for d in _descending(image.scores.tolist()):
        label = 0 if agnostic else int(image.labels[d])
        ranks[d] = seen[label] = seen.get(label, -1) + 1
    return ranks


def _detection_rows(rule: _Rule, image: _Image, device: torch.device) -> tuple[Tensor, Tensor]:
    """uint8 rows and int32 matches of one image."""
    ranks = _ranks(image, bool(rule.options & AGNOSTIC))
    kept = [d for d, rank in ranks.items() if rank < rule.limits[-1]]
    crowd = [bool(f & CROWD) for f in image.gt_flags.tolist()]
    truths = image.gt_boxes.tolist()
    ious = [[_iou(d, g, c) for g, c in zip(truths, crowd)] for d in image.boxes.tolist()]
    settings = [_match_setting(rule, image, ious, kept, setting) for setting in rule.settings]
    none = (False, False, -1)
    rows, matches = [], []
    for d, (score, label) in enumerate(zip(_bits(image.scores).tolist(), image.labels.tolist())):
        found = [found_in.get(d, none) for found_in in settings]
        bucket = sum(ranks[d] >= limit for limit in rule.limits)
        head = [*score.to_bytes(8, "little", signed=True), *label.to_bytes(4, "little", signed=True), bucket]
        rows.append([*head, *_pack([f[0] for f in found]), *_pack([f[1] for f in found])])
        matches.append([f[2] for f in found])
    width = 13 + 2 * ((len(rule.settings) + 7) // 8)
    return (
        torch.tensor(rows, dtype=torch.uint8, device=device).reshape(-1, width),
        torch.tensor(matches, dtype=torch.int32, device=device).reshape(-1, len(rule.settings)),
    )


def _truth_rows(rule: _Rule, image: _Image, device: torch.device) -> Tensor:
    rows = []
    columns = (image.gt_labels, image.gt_flags, image.gt_areas)
    for label, flag, area in zip(*(column.tolist() for column in columns)):
        ignored = bool(flag & (CROWD | IGNORED))
        counts = [not ignored and not rule.outside(area, a) for a in range(len(rule.areas))]
        rows.append([*label.to_bytes(4, "little", signed=True), *_pack([*counts, True, ignored])])
    return torch.tensor(rows, dtype=torch.uint8, device=device).reshape(-1, 4 + (len(rule.areas) + 9) // 8)


def _no_rows(rule: _Rule, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Detections, truths, images and matches of no image."""
    sizes = (13 + 2 * ((len(rule.settings) + 7) // 8), 4 + (len(rule.areas) + 9) // 8)
    rows, truths = (torch.empty((0, size), dtype=torch.uint8, device=device) for size in sizes)
    matches = torch.empty((0, len(rule.settings)), dtype=torch.int32, device=device)
    return rows, truths, torch.empty(0, dtype=torch.int64, device=device), matches


def _padding(rows: Tensor, length: int, bucket: int | None) -> Tensor:
    """``rows`` followed by padding rows up to ``length``."""
    pad = rows.new_zeros((length - len(rows), rows.shape[1]))
    if bucket is not None:
        pad[:, 12] = bucket
    return torch.cat((rows, pad))


def _true_areas(boxes: Tensor, given: Tensor | None, options: int) -> Tensor:
    area = boxes[:, 2] * boxes[:, 3]
    if given is None:
        return area
    keep = (given > 0) | (not options & USER_INPUT)
    return torch.where(keep, given.double(), area)


def assign(batch: MatchBatch, choices: MatchRule) -> Matched:
    """Reference of the op; see :func:`valor_gpu.ops.assign.assign` for the definition."""
    formats = [batch.box_format, batch.gt_box_format]
    rule = _Rule(
        choices.thresholds.tolist(), choices.area_ranges.tolist(), choices.limits.tolist(), formats, choices.options
    )
    sizes: Sequence[list[int]] = batch.lengths.tolist()
    scores, labels, image_ids = list(batch.scores), list(batch.labels), list(batch.image_ids)
    counts, gt_counts, options = batch.counts, batch.gt_counts, choices.options
    columns = [_cut(list(batch.boxes), sizes[0], 4), _cut(scores, sizes[0]), _cut(labels, sizes[0])]
    truths = [_cut(list(batch.gt_boxes), sizes[1], 4), _cut(list(batch.gt_labels), sizes[1])]
    optional = [
        _cut(list(x), sizes[side]) if len(x) else None
        for x, side in ((batch.areas, 0), (batch.flags, 0), (batch.gt_flags, 1), (batch.gt_areas, 1))
    ]
    valid = [size if count is None else count.tolist() for size, count in zip(sizes, (counts, gt_counts))]
    device, error = labels[0].device, NO_ERROR
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for i in range(len(sizes[0])):
        n, m = valid[0][i], valid[1][i]
        if not (0 <= n <= sizes[0][i] and 0 <= m <= sizes[1][i]):
            code = 8 if not 0 <= n <= sizes[0][i] else 9
            n, m, error = 0, 0, min(error, pack_box(i, 0, code))
        box, true_box = _xywh(columns[0][i], formats[0])[:n], _xywh(truths[0][i], formats[1])[:m]
        extra = [None if x is None else x[i] for x in optional]
        given = None if extra[3] is None else extra[3][:m]
        image = _Image(
            box, columns[1][i].double()[:n], columns[2][i].long()[:n],
            box[:, 2] * box[:, 3] if extra[0] is None else extra[0][:n],
            torch.zeros(n, dtype=torch.int64) if extra[1] is None else extra[1][:n],
            true_box, truths[1][i].long()[:m],
            torch.zeros(m, dtype=torch.int64, device=device) if extra[2] is None else extra[2].long()[:m],
            _true_areas(true_box, given, options),
        )  # fmt: skip
        found = _first_error(image, given, options)
        if found != NO_ERROR:
            error = min(error, pack_box(i, 0, found))
            image, n = image.empty(), 0
        rows, matches = _detection_rows(rule, image, device)
        pad = (0, 0, 0, sizes[0][i] - n)
        parts.append((
            _padding(rows, sizes[0][i], 255), _padding(_truth_rows(rule, image, device), sizes[1][i], None),
            _image_row(image, image_ids, i, sizes, options), torch.nn.functional.pad(matches, pad, value=-1),
        ))  # fmt: skip
    parts.append(_no_rows(rule, device))
    out = [torch.cat([part[k] for part in parts]) for k in range(4)]
    matches = out[3] if options & WANT_MATCHES else out[3][:0]
    return Matched(out[0], out[1], out[2].reshape(-1, 8), matches, torch.tensor(error, device=device))


def _image_row(image: _Image, image_ids: list[Tensor], i: int, sizes: Sequence[list[int]], options: int) -> Tensor:
    """int64 ``[8]``: the row of the images table."""
    zero = torch.zeros((), dtype=torch.int64, device=image.labels.device)
    gt_hash, record_hash = _hashes(image) if options & HASHED else (zero, zero)
    content = _mix(_fold(gt_hash, record_hash)) if options & HASHED else zero
    if image_ids:
        content = image_ids[0].reshape(-1)[i] if len(image_ids) == 1 else image_ids[i].reshape(())
    rest = torch.tensor([sizes[0][i], sizes[1][i]], device=zero.device)
    has_id = zero + bool(image_ids)
    sides = (image.boxes, image.gt_boxes)
    extents = torch.stack((_pair(*map(_negative_sizes, sides)), _pair(*map(_reach, sides))))
    return torch.cat((torch.stack((content.to(zero.device), has_id, gt_hash, record_hash)), rest, extents))
