"""Plain definition of the rule ``GROUP_OF``: one image, one setting, one detection at a time. No torch.

Source: Open Images Challenge, evaluation of the object detection track
(https://storage.googleapis.com/openimages/web/evaluation.html#object_detection_eval).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from valor_gpu.ops.assign.match_batch import CROWD


class GroupCandidates(NamedTuple):
    """The ground truths of the class of a detection.

    Attributes:
        flags: flags of every ground truth of the image.
        counts: whether each counts in this setting.
        similarities: of each ground truth of the class with the detection, by position in the image.
    """

    flags: Sequence[int]
    counts: Sequence[bool]
    similarities: dict[int, float]

    def best(self, groups: bool) -> int:
        """The ground truth of largest similarity, the earliest of equal ones, among groups or all others; or -1."""
        kind = [g for g in self.similarities if bool(self.flags[g] & CROWD) == groups]
        return max(kind, key=lambda g: (self.similarities[g], -g), default=-1)


def choose(candidates: GroupCandidates, threshold: float, taken: Sequence[bool]) -> tuple[int, bool]:
    """The ground truth that a detection matches, -1 for none, and whether the detection is ignored.

    Args:
        candidates: what there is to match.
        threshold: the least similarity of a match.
        taken: whether a detection of higher score found each ground truth.
    """
    single, group = candidates.best(groups=False), candidates.best(groups=True)
    if single >= 0 and candidates.similarities[single] >= threshold:
        if not candidates.counts[single]:
            return single, True
        if not taken[single]:
            return single, False
    if group >= 0 and candidates.similarities[group] >= threshold:
        return group, not candidates.counts[group] or taken[group]
    return -1, False
