"""Numbers of Valor's metrics in replicates: the same functions over images that stand several times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.detection.overlap_copies import content_order, images_that_count
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.detection.rankings import Evaluated, Ranking, classes_of
from valor_gpu.exports.leaves import leaves
from valor_gpu.exports.texts import is_scalar
from valor_gpu.ops.overlaps.op import Overlaps, Ranked
from valor_gpu.reduce.resampled_detection import CLASS_FAMILY, cluster_codes
from valor_gpu.reduce.swapped_detection import rank_scores
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import LOST_CLASSES, Resampled, holders
from valor_gpu.stats.units import Units, dense_ranks

Floats = NDArray[np.float64]


class RepeatedImages(Resampled):
    """Images of ranked detections, to be drawn anew.

    An image that is drawn k times stands for k images without an id. The order of images changes no number of these
    metrics, and nothing is matched or ranked again.

    Args:
        ranking: of the images that count.
        numbers: gives the numbers of a ranking by name, those of labels in mappings.
        order: int64 ``[I]``, places of the images in the order of their keys.
        units: what tells the images apart, in that order.
        by_rank: whether scores order the detections alone, and no number asks for their values.
    """

    family = "detection"
    unit = "images"
    chunk = 16

    def __init__(
        self,
        ranking: Ranking,
        numbers: Callable[[Ranking], Mapping[str, Any]],
        order: Tensor,
        units: Units | None,
        by_rank: bool,
    ) -> None:
        self._ranking, self._numbers, self._order = ranking, numbers, order
        self._identities, self._by_rank = units, by_rank
        self._keys = None if units is None else units.ids
        self.units = len(order)
        self._names = list(flat_numbers(numbers(ranking)))

    def replicates(self, draws: Draws) -> dict[str, Floats]:
        """See :class:`Resampled`."""
        weights = torch.from_numpy(draws.array().astype(np.int64)).to(self._order.device)
        found = {name: np.full(draws.count, np.nan) for name in self._names}
        lost = np.zeros(draws.count)
        labels = len(self._ranking.overlaps.gt_labels.unique())
        for column in range(draws.count):
            times = torch.zeros_like(self._order)
            times[self._order] = weights[:, column]
            repeated = repeat_images(self._ranking, times)
            lost[column] = labels - len(repeated.overlaps.gt_labels.unique())
            for name, value in flat_numbers(self._numbers(repeated)).items():
                found[name][column] = value
        means = [name for name in found if "/" not in name]
        return found | {name + LOST_CLASSES: lost for name in means if labels > 1}

    def family_of(self, name: str) -> str:
        """See :class:`Resampled`: numbers of labels are a family of their own."""
        return CLASS_FAMILY if "/" in name else self.family

    def range_of(self, name: str) -> tuple[float, float]:
        """See :class:`Resampled`: precision and recall are fractions."""
        return 0.0, 1.0

    def supports(self, clusters: NDArray[np.int64] | None = None) -> dict[str, int]:
        """See :class:`Resampled`."""
        overlaps = self._ranking.overlaps
        labels, classes = overlaps.gt_labels.unique(return_inverse=True)
        places = torch.empty_like(self._order)  # of the images in the order of their keys
        places[self._order] = torch.arange(self.units, device=places.device)
        pairs = classes.cpu().numpy(), places[overlaps.datums()[1]].cpu().numpy()
        by_label = dict(zip(map(str, labels.tolist()), holders(*pairs, len(labels), clusters)))
        return {name: by_label.get(name.rpartition("/")[2], 0) for name in self._names if "/" in name}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """See :class:`Resampled`; a sequence is in the order of ascending ids."""
        return cluster_codes(given, self._keys, self.units)

    def identities(self) -> Units:
        """See :class:`Resampled`: images by their ids, or by the order in which they arrived."""
        return super().identities() if self._identities is None else self._identities

    def swapping(self, other: Resampled) -> Resampled | None:
        """See :class:`Resampled`; scores are left as they are where numbers ask for their values."""
        if not isinstance(other, RepeatedImages):
            return None
        sides = [_ranked(each._ranking) if self._by_rank else each._ranking for each in (self, other)]
        order = torch.cat((self._order, self.units + other._order))
        return RepeatedImages(joined_rankings(*sides), self._numbers, order, None, self._by_rank)


def repeated_images(
    records: OverlapRecords, ranking: Ranking, numbers: Callable[[Ranking], Mapping[str, Any]], by_rank: bool
) -> RepeatedImages:
    """Returns the images of a state, to be drawn anew.

    Args:
        records: the state.
        ranking: of its images that count.
        numbers: see :class:`RepeatedImages`.
        by_rank: likewise.
    """
    kept = images_that_count(records)
    order, contents, truths = content_order(records, kept)
    images = records.images[kept][order].cpu().numpy()
    ids = images[:, 1].tolist() if bool(images[:, 0].all()) else None
    arrival = kept.nonzero()[:, 0][order].cpu().numpy()
    found = Units("images", ids, arrival, len(kept), dense_ranks(contents.cpu().numpy()), truths.cpu().numpy())
    return RepeatedImages(ranking, numbers, order, found, by_rank)


def _ranked(ranking: Ranking) -> Ranking:
    """A ranking whose scores are ranks within their label; one of 0 or less, which never counts, stays."""
    overlaps = ranking.overlaps
    ranks = torch.from_numpy(rank_scores(overlaps.scores.cpu().numpy(), overlaps.labels.cpu().numpy()))
    scores = torch.where(overlaps.scores > 0, ranks.to(overlaps.scores.device), overlaps.scores)
    return Ranking(
        Evaluated(replace(overlaps, scores=scores), ranking.images.names, 0, {}), ranking.ranked, ranking.classes, {}
    )


def joined_rankings(first: Ranking, second: Ranking) -> Ranking:
    """Returns the ranking of the images of one ranking and then those of another.

    Args:
        first: I images.
        second: others, on the same device.
    """
    one, other = first.overlaps, second.overlaps
    shift = len(one.gt_labels)
    best = second.ranked.best
    moved = second.ranked._replace(best=torch.where(best >= 0, best + shift, best))
    columns = {
        name: torch.cat((getattr(one, name), getattr(other, name)))
        for name in ("labels", "scores", "gt_labels", "counts", "ious")
    }
    sizes, ground_truths = (one.sizes, other.sizes), (one.ground_truths, other.ground_truths + shift)
    overlaps = Overlaps(sizes=torch.cat(sizes, 1), ground_truths=torch.cat(ground_truths), **columns)
    names = torch.arange(overlaps.sizes.shape[1], device=best.device)
    found = Ranked(*(torch.cat(pair) for pair in zip(first.ranked, moved)))
    return Ranking(Evaluated(overlaps, names, 0, {}), found, classes_of(overlaps), {})


def flat_numbers(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Returns single numbers by leaf name."""
    return {name: float(value) for name, value in leaves(numbers) if is_scalar(value)}


def repeat_images(ranking: Ranking, times: Tensor) -> Ranking:
    """Returns the ranking of data in which images stand several times.

    Args:
        ranking: of the images as they are.
        times: int64 ``[I]``, how often each image stands there.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> scores, best = torch.tensor([0.5, 0.25]).double(), torch.tensor([0.75]).double()
        >>> overlaps = Overlaps(torch.tensor([[1, 1], [1, 0]]), torch.tensor([7, 7]), scores,
        ...                     torch.tensor([7]), torch.tensor([1, 0]), torch.tensor([0]), best)
        >>> images = Evaluated(overlaps, torch.arange(2), 0, {})
        >>> twice = repeat_images(Ranking(images, rank_overlaps(overlaps), torch.tensor([7]), {}), torch.tensor([2, 0]))
        >>> twice.overlaps.scores.tolist(), twice.overlaps.ground_truths.tolist(), twice.ranked.best.tolist()
        ([0.5, 0.5], [0, 1], [0, 1])
    """
    overlaps, ranked = ranking.overlaps, ranking.ranked
    images = torch.arange(len(times), device=times.device).repeat_interleave(times)
    rows, of_rows = rows_of_groups(overlaps.sizes[0], images)
    gt_rows, _ = rows_of_groups(overlaps.sizes[1], images)
    pairs, of_pairs = rows_of_groups(overlaps.counts, rows)
    sizes = overlaps.sizes[:, images]
    moved = _starts(sizes[1]) - _starts(overlaps.sizes[1])[images]  # of the first ground truth of each copy
    best = ranked.best[rows]
    copies = Overlaps(
        sizes, overlaps.labels[rows], overlaps.scores[rows], overlaps.gt_labels[gt_rows], overlaps.counts[rows],
        overlaps.ground_truths[pairs] + moved[of_rows][of_pairs], overlaps.ious[pairs],
    )  # fmt: skip
    found = Ranked(
        torch.where(best >= 0, best + moved[of_rows], best), ranked.ious[rows], ranked.before[rows], ranked.others[rows]
    )
    names = torch.arange(len(images), device=images.device)
    return Ranking(Evaluated(copies, names, 0, {}), found, classes_of(copies), {})


def _starts(sizes: Tensor) -> Tensor:
    return sizes.cumsum(0) - sizes


def rows_of_groups(sizes: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the rows of groups, one group after another, and which of the wanted groups each is of.

    Args:
        sizes: int64, rows of every group.
        groups: int64, those wanted, in order; one may come again.
    """
    wanted = sizes[groups]
    owners = torch.arange(len(groups), device=groups.device).repeat_interleave(wanted)
    shift = (_starts(sizes)[groups] - _starts(wanted))[owners]
    return torch.arange(len(owners), device=groups.device) + shift, owners
