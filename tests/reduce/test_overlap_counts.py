"""Counts of ranked overlaps against walks through each datum, for each threshold, in plain Python."""

from __future__ import annotations

import pytest
import torch

from tests.reduce.overlap_scenes import KINDS, Scene, overlaps_of, plain_counts, random_scenes
from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import rank_overlaps
from valor_gpu.reduce.overlap_counts import OutcomeCounts, count_outcomes, detection_kinds

CLASSES = [0, 2, 5]  # label 1 occurs and is not asked for, class 5 never occurs
THRESHOLDS = [0.5, 0.6, 0.2, 1.0]
SCORES = [0.5, 0.0, 0.75, -1.0, 0.3]


def numbers(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def counts_of(scenes: list[Scene], duplicates: bool, **groups: object) -> OutcomeCounts:
    overlaps = overlaps_of(scenes)
    classes = torch.tensor(CLASSES)
    grid = classes, numbers(THRESHOLDS), numbers(SCORES)
    return count_outcomes(rank_overlaps(overlaps), overlaps, *grid, duplicates=duplicates, **groups)  # type: ignore[arg-type]


def differences(found: OutcomeCounts, group: int, scenes: list[Scene], duplicates: bool) -> list[str]:
    wrong = []
    for c, label in enumerate(CLASSES):
        for t, threshold in enumerate(THRESHOLDS):
            for s, least in enumerate(SCORES):
                expected = plain_counts(scenes, label, threshold, least, duplicates)
                for name, table in zip(KINDS, found):
                    got = int(table[group, c] if name == "ground_truths" else table[group, c, t, s])
                    if got != expected[name]:
                        wrong.append(f"{name} of {label} at {threshold}, {least}: {got}, not {expected[name]}")
    return wrong


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_equal_to_walks(seed: int, duplicates: bool) -> None:
    scenes = random_scenes(seed)
    assert differences(counts_of(scenes, duplicates), 0, scenes, duplicates) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_group_is_its_datums_alone(seed: int) -> None:
    scenes = random_scenes(seed)
    groups = torch.randint(-1, 4, (len(scenes),), generator=torch.Generator().manual_seed(seed))
    found = counts_of(scenes, True, groups=groups, num_groups=4)
    for group in range(4):
        chosen = [scene for scene, own in zip(scenes, groups.tolist()) if own == group]
        assert differences(found, group, chosen, True) == []


def test_identities() -> None:
    found = counts_of(random_scenes(3, datums=60), True)
    assert torch.equal(found.fp, found.hallucinations + found.misclassifications + found.duplicates)
    assert torch.equal(found.fn, found.fn_misclassifications + found.no_predictions)
    assert torch.equal(found.tp + found.fn, found.ground_truths[..., None, None].expand_as(found.tp))
    assert all(bool((table >= 0).all()) for table in found)


def test_kinds_of_one_scene() -> None:
    """Found, repeated, of the wrong label, too far off, and of score 0, which is never a true positive."""
    scene = Scene(
        [0, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.0], [0, 0], [[0.9, 0], [0.8, 0], [0, 0.7], [0.3, 0], [0, 0.8]]
    )
    overlaps = overlaps_of([scene])
    ranked = rank_overlaps(overlaps)
    assert detection_kinds(ranked, overlaps.scores, 0.5).tolist() == [0, 1, 2, 1, 1]
    assert detection_kinds(ranked, overlaps.scores, 0.5, duplicates=True).tolist() == [0, 3, 2, 1, 3]


@pytest.mark.parametrize(
    "scenes", [[], [Scene([], [], [], [])], [Scene([], [], [0, 2], [])], [Scene([0], [0.5], [], [[]])]]
)
def test_empty_sides(scenes: list[Scene]) -> None:
    assert differences(counts_of(scenes, True), 0, scenes, True) == []


def test_no_thresholds_or_classes() -> None:
    overlaps = overlaps_of(random_scenes(0))
    ranked = rank_overlaps(overlaps)
    for classes, thresholds, scores in (([], [0.5], [0.5]), ([0], [], [0.5]), ([0], [0.5], [])):
        found = count_outcomes(
            ranked, overlaps, torch.tensor(classes, dtype=torch.int64), numbers(thresholds), numbers(scores)
        )
        assert found.tp.shape == found.no_predictions.shape == (1, len(classes), len(thresholds), len(scores))


def test_groups_that_do_not_fit() -> None:
    scenes = random_scenes(0)
    with pytest.raises(InputError, match=r"groups must have shape \[12\] but got \[3\]"):
        counts_of(scenes, False, groups=torch.zeros(3, dtype=torch.int64), num_groups=2)
    with pytest.raises(InputError, match="groups must be below num_groups=2 but the largest is 2"):
        counts_of(scenes, False, groups=torch.full((12,), 2), num_groups=2)
    with pytest.raises(InputError, match="num_groups must be 1 where groups is None but got 3"):
        counts_of(scenes, False, num_groups=3)
