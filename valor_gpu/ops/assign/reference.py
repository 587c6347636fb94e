"""Plain-torch definition of ``assign``: one image, one setting, one detection at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from valor_gpu.ops.assign.group_reference import GroupCandidates, choose
from valor_gpu.ops.assign.image_reference import Image, bits, image_row
from valor_gpu.ops.assign.match_batch import (
    AGNOSTIC,
    CHECK_SCORES,
    COCO,
    COLUMNS,
    CROWD,
    DETECTIONS,
    FREE,
    GROUP,
    GROUP_OF,
    ID_ZERO,
    IGNORED,
    PADDING_BUCKET,
    UNMATCHED_IGNORED,
    USER_INPUT,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
    Pairs,
)
from valor_gpu.ops.error_codes import (
    NO_ERROR,
    PAIR_CLASS,
    PAIR_COUNT,
    PAIR_GROUND_TRUTH,
    PAIR_OFFSETS,
    PAIR_ORDER,
    PAIR_SIMILARITY,
    pack_box,
)

_Candidates = list[tuple[float, int]]
"""(similarity, position of the ground truth in its image), largest first."""


@dataclass(frozen=True)
class _Rule:
    thresholds: list[float]
    areas: list[list[float]]
    limits: list[int]
    options: int
    kind: int

    @property
    def settings(self) -> list[tuple[int, int]]:
        """(area range, threshold) of every setting."""
        return [(a, t) for a in range(len(self.areas)) for t in range(len(self.thresholds))]

    def outside(self, area: float, a: int) -> bool:
        return area < self.areas[a][0] or area > self.areas[a][1]


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


def _first_error(image: Image, options: int) -> int:
    """(row, code) of the first bad row, detections before ground truths on a tie; ``NO_ERROR`` if there is none."""
    int32 = torch.iinfo(torch.int32)
    wide = [(x < int32.min) | (x > int32.max) for x in (image.labels, image.gt_labels)]
    bad = [
        (1, _infinite(image.geometry)),
        (2, image.scores.isnan() & bool(options & CHECK_SCORES)),
        (3, wide[0]),
        (4, _infinite(image.gt_geometry)),
        (5, wide[1]),
        (6, _bad_areas(image.given_areas, options)),
        (7, ((image.gt_flags < 0) | (image.gt_flags > 1)) & bool(options & USER_INPUT)),
    ]
    found = [pack_box(0, int(mask.nonzero()[0]), code) for code, mask in bad if bool(mask.any())]
    return min(found, default=NO_ERROR)


def _infinite(geometry: Tensor) -> Tensor:
    """Whether boxes have coordinates that are not finite; geometries of stored pairs are checked where they are."""
    return ~geometry.isfinite().all(1) if geometry.ndim == 2 else torch.zeros_like(geometry, dtype=torch.bool)


def _bad_areas(area: Tensor, options: int) -> Tensor:
    """Whether areas are NaN or, from a user, infinite."""
    return ~area.isfinite() if options & USER_INPUT else area.isnan()


def _descending(scores: list[float]) -> list[int]:
    """Positions by descending score, input order on ties, NaN last."""
    return sorted(
        range(len(scores)), key=lambda i: (scores[i] != scores[i], -scores[i] if scores[i] == scores[i] else 0)
    )


def _box_pairs(rule: _Rule, image: Image) -> list[_Candidates]:
    """The pairs of every detection."""
    crowd = [bool(f & CROWD) for f in image.gt_flags.tolist()]
    boxes, labels, lowest = image.gt_geometry.tolist(), image.gt_labels.tolist(), min(rule.thresholds)
    pairs = []
    for d, label in zip(image.geometry.tolist(), image.labels.tolist()):
        same = [g for g in range(len(boxes)) if rule.options & AGNOSTIC or labels[g] == label]
        found = [(_iou(d, boxes[g], crowd[g]), g) for g in same]
        pairs.append(sorted([pair for pair in found if pair[0] >= lowest], reverse=True))
    return pairs


def _stored_pairs(rule: _Rule, image: Image, pairs: Pairs, first: int) -> tuple[list[_Candidates], int]:
    """The pairs of every detection of an image whose detections begin at row ``first``, and the first error's code."""
    total, found = len(pairs.similarities), []
    for d, label in enumerate(image.labels.tolist()):
        begin, end = pairs.offsets[first + d : first + d + 2].tolist()
        used = begin + int(pairs.counts[first + d])
        kind = 0
        if not 0 <= begin <= end <= total:
            kind = PAIR_OFFSETS
        elif not begin <= used <= min(end, begin + len(image.gt_labels)):
            kind = PAIR_COUNT
        if kind == 0:
            candidates = list(zip(pairs.similarities[begin:used].tolist(), pairs.ground_truths[begin:used].tolist()))
            kind = _pair_error(candidates, None if rule.options & AGNOSTIC else label, image.gt_labels.tolist())
            found.append(candidates)
        if kind:
            return [], pack_box(0, d, kind)
    return found, NO_ERROR


def _pair_error(candidates: _Candidates, label: int | None, gt_labels: list[int]) -> int:
    """The kind of the first error with the pairs of a detection, 0 if there is none."""
    last = (float("inf"), len(gt_labels))
    for similarity, g in candidates:
        if not 0 <= g < len(gt_labels):
            return PAIR_GROUND_TRUTH
        if similarity != similarity:
            return PAIR_SIMILARITY
        if not last > (similarity, g):
            return PAIR_ORDER
        if label is not None and gt_labels[g] != label:
            return PAIR_CLASS
        last = (similarity, g)
    return 0


def _match_setting(
    rule: _Rule, image: Image, pairs: list[_Candidates], kept: list[int], setting: tuple[int, int]
) -> dict[int, tuple[bool, bool, int]]:
    """(matched, ignored, ground truth) of each kept detection in one setting."""
    a, t = setting
    gt_flags = image.gt_flags.tolist()
    ignored = [_ignored(f) or rule.outside(s, a) for f, s in zip(gt_flags, image.gt_areas.tolist())]
    flags, areas = image.flags.tolist(), image.areas.tolist()
    taken = [False] * len(gt_flags)
    out = {}
    for d in kept:
        if rule.kind == GROUP_OF:
            candidates = GroupCandidates(gt_flags, [not bit for bit in ignored], {g: s for s, g in pairs[d]})
            best, unwanted = choose(candidates, rule.thresholds[t], taken)
        else:
            best = _choose(pairs[d], rule.thresholds[t], gt_flags, ignored, taken)
            unwanted = best >= 0 and ignored[best]
        matched = best >= 0 and not (rule.kind == COCO and gt_flags[best] & ID_ZERO)
        without = rule.outside(areas[d], a) or bool(flags[d] & UNMATCHED_IGNORED)
        out[d] = (matched, unwanted or (not matched and without), best)
        if best >= 0 and not flags[d] & FREE:
            taken[best] = True
    return out


def _choose(pairs: _Candidates, threshold: float, gt_flags: list[int], ignored: list[bool], taken: list[bool]) -> int:
    """The ground truth that a detection takes by the rule of COCO, -1 for none."""
    free = [
        (not ignored[g], similarity, g)
        for similarity, g in pairs
        if (not taken[g] or gt_flags[g] & CROWD) and similarity >= threshold
    ]
    return max(free, default=(False, 0.0, -1))[2]


def _ignored(flags: int) -> bool:
    """Whether a ground truth counts in no setting."""
    return bool(flags & IGNORED) or flags & (CROWD | GROUP) == CROWD


def _pack(bits: list[bool]) -> list[int]:
    """Bits to bytes, least significant first."""
    return [sum(int(bit) << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)]


def _ranks(image: Image, agnostic: bool) -> dict[int, int]:
    """Rank of each detection in its cell, in order of descending score."""
    seen: dict[int, int] = {}
    ranks = {}
    for d in _descending(image.scores.tolist()):
        label = 0 if agnostic else int(image.labels[d])
        ranks[d] = seen[label] = seen.get(label, -1) + 1
    return ranks


def _detection_rows(rule: _Rule, image: Image, pairs: list[_Candidates], device: torch.device) -> tuple[Tensor, Tensor]:
    """uint8 rows and int32 matches of one image."""
    ranks = _ranks(image, bool(rule.options & AGNOSTIC))
    kept = [d for d, rank in ranks.items() if rank < rule.limits[-1]]
    settings = [_match_setting(rule, image, pairs, kept, setting) for setting in rule.settings]
    none = (False, False, -1)
    rows, matches = [], []
    for d, (score, label) in enumerate(zip(bits(image.scores).tolist(), image.labels.tolist())):
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


def _ground_truth_rows(rule: _Rule, image: Image, device: torch.device) -> Tensor:
    rows = []
    columns = (image.gt_labels, image.gt_flags, image.gt_areas)
    for label, flag, area in zip(*(column.tolist() for column in columns)):
        ignored = _ignored(flag)
        counts = [not ignored and not rule.outside(area, a) for a in range(len(rule.areas))]
        rows.append([*label.to_bytes(4, "little", signed=True), *_pack([*counts, True, ignored])])
    return torch.tensor(rows, dtype=torch.uint8, device=device).reshape(-1, 4 + (len(rule.areas) + 9) // 8)


def _no_rows(rule: _Rule, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Detections, ground truths, images and matches of no image."""
    sizes = (13 + 2 * ((len(rule.settings) + 7) // 8), 4 + (len(rule.areas) + 9) // 8)
    rows, ground_truths = (torch.empty((0, size), dtype=torch.uint8, device=device) for size in sizes)
    matches = torch.empty((0, len(rule.settings)), dtype=torch.int32, device=device)
    return rows, ground_truths, torch.empty(0, dtype=torch.int64, device=device), matches


def _padding(rows: Tensor, length: int, bucket: int | None) -> Tensor:
    """``rows`` followed by padding rows up to ``length``."""
    pad = rows.new_zeros((length - len(rows), rows.shape[1]))
    if bucket is not None:
        pad[:, 12] = bucket
    return torch.cat((rows, pad))


def _own_areas(boxes: Tensor) -> Tensor:
    return boxes[:, 2] * boxes[:, 3]


def _read(batch: MatchBatch, columns: Mapping[str, Tensor], sizes: tuple[int, int], options: int) -> Image:
    """One image of so many valid rows, from the columns that the batch has."""
    rows = {name: column[: sizes[COLUMNS[name].side != DETECTIONS]] for name, column in columns.items()}
    none = [torch.zeros(size, dtype=torch.int64, device=columns["labels"].device) for size in sizes]
    if batch.pairs is None:
        geometry, gt_geometry = _xywh(rows["boxes"], batch.box_format), _xywh(rows["gt_boxes"], batch.gt_box_format)
        areas, own = rows.get("areas", _own_areas(geometry)), _own_areas(gt_geometry)
    else:
        geometry, gt_geometry = rows.get("hashes", none[0]), rows.get("gt_hashes", none[1])
        areas, own = rows["areas"], rows["gt_own_areas"]
    given = rows["gt_areas"].double() if "gt_areas" in rows else own
    keep = (given > 0) | (not options & USER_INPUT)
    return Image(
        geometry, rows["scores"].double(), rows["labels"].long(), areas, rows.get("flags", none[0]),
        gt_geometry, rows["gt_labels"].long(), rows.get("gt_flags", none[1]).long(), torch.where(keep, given, own),
        given if "gt_areas" in rows else torch.zeros_like(own),
    )  # fmt: skip


def _split(batch: MatchBatch, lengths: Sequence[list[int]]) -> list[dict[str, Tensor]]:
    """The columns of every image."""
    images: list[dict[str, Tensor]] = [{} for _ in lengths[0]]
    for name, column in COLUMNS.items():
        tensors = list(getattr(batch, name))
        cut = _cut(tensors, lengths[column.side != DETECTIONS], column.width) if tensors else []
        for image, part in zip(images, cut):
            image[name] = part
    return images


def _load(
    batch: MatchBatch,
    rule: _Rule,
    columns: Mapping[str, Tensor],
    valid: tuple[int, int],
    rows: tuple[int, int],
    first: int,
) -> tuple[Image, list[_Candidates], int]:
    """One image with its pairs, and the first error, with which it counts as empty."""
    if not (0 <= valid[0] <= rows[0] and 0 <= valid[1] <= rows[1]):
        code = 8 if not 0 <= valid[0] <= rows[0] else 9
        return _read(batch, columns, (0, 0), rule.options), [], pack_box(0, 0, code)
    image = _read(batch, columns, valid, rule.options)
    error = _first_error(image, rule.options)
    pairs: list[_Candidates] = []
    if error == NO_ERROR and batch.pairs is None:
        pairs = _box_pairs(rule, image)
    elif error == NO_ERROR and batch.pairs is not None:
        pairs, error = _stored_pairs(rule, image, batch.pairs, first)
    return (image if error == NO_ERROR else image.empty()), pairs, error


def assign(batch: MatchBatch, choices: MatchRule) -> Matched:
    """Reference of the op; see :func:`valor_gpu.ops.assign.op.assign` for the definition."""
    rule = _Rule(
        choices.thresholds.tolist(),
        choices.area_ranges.tolist(),
        choices.limits.tolist(),
        choices.options,
        choices.kind,
    )
    lengths: Sequence[list[int]] = batch.lengths.tolist()
    counts = [size if n is None else n.tolist() for size, n in zip(lengths, (batch.counts, batch.gt_counts))]
    device, error, first = batch.labels[0].device, NO_ERROR, 0
    parts = [_no_rows(rule, device)]
    for i, columns in enumerate(_split(batch, lengths)):
        rows, valid = (lengths[0][i], lengths[1][i]), (counts[0][i], counts[1][i])
        image, pairs, found = _load(batch, rule, columns, valid, rows, first)
        if found != NO_ERROR:
            error = min(error, pack_box(i, 0, found))
        detections, matches = _detection_rows(rule, image, pairs, device)
        parts.append((
            _padding(detections, rows[0], PADDING_BUCKET),
            _padding(_ground_truth_rows(rule, image, device), rows[1], None),
            image_row(image, list(batch.image_ids), i, rows, rule.options),
            torch.nn.functional.pad(matches, (0, 0, 0, rows[0] - len(matches)), value=-1),
        ))  # fmt: skip
        first += rows[0]
    out = [torch.cat([part[k] for part in parts]) for k in range(4)]
    matches = out[3] if rule.options & WANT_MATCHES else out[3][:0]
    return Matched(out[0], out[1], out[2].reshape(-1, 8), matches, torch.tensor(error, device=device))
