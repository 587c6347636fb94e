"""Polygons as run lengths: rule coco equals pycocotools run by run, rule centre is geometry."""

from __future__ import annotations

import gzip
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.ops.polygons.cpu import join_rings, rasterise

DATA = Path(__file__).parents[2] / "examples/data"
Polygon = list[Any]


def runs_of(polygons: list[Polygon], sizes: Any, rule: str = "coco", **choices: Any) -> list[list[int]]:
    """The runs of each mask."""
    found = rasterise(*join_rings(polygons), np.asarray(sizes, np.int64).reshape(-1, 2), rule, **choices)
    assert (found.counts.dtype, found.offsets.dtype, found.sizes.dtype) == (np.int32, np.int64, np.int32)
    assert found.sizes.tolist() == np.asarray(sizes).reshape(-1, 2).tolist()
    return [found.counts[first:end].tolist() for first, end in zip(found.offsets, found.offsets[1:])]


def of_pycocotools(rings: Polygon, height: int, width: int) -> list[int]:
    """The runs of ``merge(frPyObjects(...))``, read from its string."""
    mask = pytest.importorskip("pycocotools.mask")
    flat = [[float(number) for number in np.ravel(ring)] for ring in rings]
    runs: list[int] = []
    number = shift = 0
    for byte in mask.merge(mask.frPyObjects(flat, height, width))["counts"]:
        number |= (byte - 48 & 31) << shift
        shift += 5
        if not byte - 48 & 32:
            number -= (byte - 48 & 16) << shift - 4
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number = shift = 0
    return runs


def check(polygons: list[Polygon], sizes: Any) -> None:
    expected = [of_pycocotools(rings, *size) for rings, size in zip(polygons, sizes)]
    assert runs_of(polygons, sizes) == expected


HAND_MADE: dict[str, tuple[tuple[int, int], Polygon]] = {
    "square": ((6, 6), [[1, 1, 4, 1, 4, 4, 1, 4]]),
    "the other way round": ((6, 6), [[1, 4, 4, 4, 4, 1, 1, 1]]),
    "whole mask": ((5, 7), [[0, 0, 7, 0, 7, 5, 0, 5]]),
    "larger than the mask": ((5, 7), [[-3, -3, 9, -3, 9, 9, -3, 9]]),
    "outside, left and above": ((5, 7), [[-9, -9, -3, -9, -3, -3]]),
    "outside, right and below": ((5, 7), [[9, 9, 13, 9, 13, 13]]),
    "one pixel": ((1, 1), [[0, 0, 1, 0, 1, 1, 0, 1]]),
    "one pixel of many": ((9, 9), [[4, 4, 5, 4, 5, 5, 4, 5]]),
    "one point": ((5, 5), [[2, 2, 2, 2, 2, 2]]),
    "a line": ((5, 5), [[1, 1, 3, 3, 4, 4]]),
    "there and back": ((5, 5), [[0.5, 1, 4.5, 3, 0.5, 1, 4.5, 3]]),
    "vertical line": ((5, 5), [[2.5, 0, 2.5, 5, 2.5, 0]]),
    "repeated vertices": ((8, 8), [[1, 1, 1, 1, 6, 1, 6, 1, 6, 6, 6, 6, 1, 6, 1, 1]]),
    "bow tie": ((9, 9), [[0, 0, 9, 9, 9, 0, 0, 9]]),
    "touches itself": ((9, 9), [[0, 0, 4, 4, 8, 0, 8, 8, 4, 4, 0, 8]]),
    "wound twice": ((6, 6), [[1, 1, 4, 1, 4, 4, 1, 4, 1, 1, 4, 1, 4, 4, 1, 4]]),
    "two rings apart": ((6, 12), [[1, 1, 4, 1, 4, 4, 1, 4], [7, 2, 11, 2, 11, 5]]),
    "two rings that touch": ((6, 12), [[1, 1, 4, 1, 4, 4, 1, 4], [4, 1, 8, 1, 8, 4, 4, 4]]),
    "one ring inside another": ((9, 9), [[0, 0, 9, 0, 9, 9, 0, 9], [3, 3, 6, 3, 6, 6, 3, 6]]),
    "the same ring twice": ((9, 9), [[1, 0, 8, 3, 2, 8]] * 2),
    "middles of columns": ((6, 6), [[0.5, 0.5, 3.5, 0.5, 3.5, 4.5, 0.5, 4.5]]),
    "fifths": ((6, 6), [[0.4, 0.6, 3.6, 0.4, 3.4, 4.6, 0.6, 4.4]]),
    "negative, cut off towards 0": ((6, 6), [[-0.1, -0.3, 5.2, -0.2, 5.1, 6.2, -0.2, 5.9]]),
    "one row": ((1, 50), [[3, -1, 30, 2, 45, -1]]),
    "one column": ((50, 1), [[-1, 3, 2, 30, -1, 45]]),
    "no height": ((0, 5), [[0, 0, 4, 0, 4, 4]]),
    "far away": ((40, 30), [[-90000, 3, 90000, 20, 5, 80000]]),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made_polygons_equal_pycocotools(name: str) -> None:
    size, rings = HAND_MADE[name]
    check([rings], [size])


def random_ring(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float64]:
    """A ring of up to 60 vertices inside, around or far beyond the mask, many on borders of pixels."""
    low, high = [(0.0, 1.0), (-0.5, 1.5), (-3.0, 4.0)][rng.integers(3)]
    count = int(rng.integers(3, [5, 12, 60][rng.integers(3)]))
    ring = rng.uniform(low, high, (count, 2)) * [width, height]
    kind = rng.integers(8)
    if kind < 4:
        ring = np.round(ring * (steps := [1, 2, 5, 10][kind])) / steps
    elif kind == 4:
        ring[rng.integers(count)] = ring[-1] = ring[0]
    elif kind == 5:
        ring[:, rng.integers(2)] = ring[0, 0]
    elif kind == 6:
        ring = np.cumsum(rng.normal(0, 2, (count, 2)), 0) + ring[0]
    return ring


def random_masks(seed: int, count: int) -> tuple[list[Polygon], list[tuple[int, int]]]:
    rng = np.random.default_rng([seed, 71])
    sizes = [[(3, 5), (1, 1), (17, 40), (48, 64), (1, 300), (300, 1)][rng.integers(6)] for _ in range(count)]
    rings = [int(rng.choice([0, 1, 1, 1, 2, 3, 20])) for _ in range(count)]
    return [[random_ring(rng, *size) for _ in range(n)] for n, size in zip(rings, sizes)], sizes


@pytest.mark.parametrize("seed", seeds(2))
def test_random_polygons_equal_pycocotools(seed: int) -> None:
    polygons, sizes = random_masks(seed, 250)
    kept = [i for i, rings in enumerate(polygons) if rings]
    check([polygons[i] for i in kept], [sizes[i] for i in kept])


def test_hundreds_of_rings_equal_pycocotools() -> None:
    rng = np.random.default_rng(5)
    rings = [rng.uniform(0, 30, (3, 2)) + rng.uniform(0, 120, 2) for _ in range(400)]
    check([rings, rings[:7], rings[:1]], [(150, 140)] * 3)


def test_large_masks_equal_pycocotools() -> None:
    sizes = [(20000, 30000), (1, 100000), (100000, 1), (2_000_000, 20)]
    rng = np.random.default_rng(6)
    check([[rng.uniform(-0.2, 1.2, (4, 2)) * [width, height]] for height, width in sizes], sizes)


def test_masks_that_are_filled_part_by_part_equal_pycocotools() -> None:
    rng = np.random.default_rng(7)
    zigzag = np.stack((np.where(np.arange(30) % 2, 40_000.0, 0.0), rng.uniform(0, 50, 30)), 1)
    teeth = np.repeat(np.arange(200_000.0), 2)
    comb = np.stack((np.append(teeth, [2e5, 0]), np.append(np.tile([0, 1, 1, 0], 100_000) * 1.2, [3, 3])), 1)
    check([[zigzag], [comb + np.array([0, 0.1 * i]) for i in range(6)]], [(50, 40_000), (5, 200_000)])


def test_polygons_of_coco_equal_pycocotools() -> None:
    data = json.loads(gzip.decompress((DATA / "instances_val2014_100_masks.json.gz").read_bytes()))
    sizes = {image["id"]: (image["height"], image["width"]) for image in data["images"]}
    kept = [record for record in data["annotations"] if isinstance(record["segmentation"], list)]
    assert len(kept) == 830
    check([record["segmentation"] for record in kept], [sizes[record["image_id"]] for record in kept])


@pytest.mark.parametrize("rule", ["coco", "centre"])
def test_masks_are_split_over_threads(rule: str) -> None:
    polygons, sizes = random_masks(9, 1100)
    alone = runs_of(polygons, sizes, rule, threads=1)
    assert runs_of(polygons, sizes, rule, threads=3) == alone
    assert alone == [runs for p, s in zip(polygons, sizes) for runs in runs_of([p], [s], rule)]


@pytest.mark.smoke
@pytest.mark.parametrize("rule", ["coco", "centre"])
def test_masks_without_rings_or_pixels(rule: str) -> None:
    assert runs_of([], [], rule) == []
    triangle = [[0, 0, 4, 0, 0, 4]]
    assert runs_of([[], triangle, triangle, []], [(3, 4), (0, 4), (4, 0), (0, 0)], rule) == [[12], [0], [0], [0]]


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.smoke
@pytest.mark.parametrize("rule", ["coco", "centre"])
@pytest.mark.parametrize(
    ("value", "said"),
    [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (2.1e8, r"210000000\.0"), (-1e300, r"-1e\+300")],
)
def test_a_vertex_that_is_none_is_named(rule: str, value: float, said: str) -> None:
    good, bad = [0, 0, 4, 0, 4, 4], [0, 0, 1, 1, 2, 3, 4, value]
    with pytest.raises(InputError, match=rf"ring 1 of mask 2 must have .* vertex 3 is \(4\.0, {said}\)"):
        runs_of([[good], [], [good, bad], [bad]], [(5, 5)] * 4, rule)


def test_the_first_bad_ring_is_named_whatever_thread_finds_it() -> None:
    rings: list[Polygon] = [[[0, 0, 4, 0, 4, 4]] for _ in range(2000)]
    rings[700] = rings[130] = rings[1999] = [[0, 0, 1, 1, np.nan, 1]]
    for threads in (1, 3):
        with pytest.raises(InputError, match="ring 0 of mask 130 "):
            runs_of(rings, [(5, 5)] * 2000, threads=threads)


@pytest.mark.parametrize(
    ("ring", "said"),
    [
        ([0, 0, 1, 1], "an even number of at least 6 coordinates but has 4"),
        ([], "an even number of at least 6 coordinates but has 0"),
        ([0, 0, 1, 1, 2, 2, 3], "an even number of at least 6 coordinates but has 7"),
        ([[0, 0, 1], [1, 1, 1]], r"\[x0, y0, x1, y1, ...\] or \[n, 2\] but has shape \[2, 3\]"),
        (["a", "b"], "must be a list of numbers: could not convert"),
        ([0, 0, 1, [1]], "must be a list of numbers: "),
        (None, "ring 1 of mask 1 must be "),
        (3.0, r"or \[n, 2\] but has shape \[\]"),
    ],
)
def test_a_ring_that_is_none_is_named(ring: Any, said: str) -> None:
    good = [0, 0, 4, 0, 4, 4]
    with pytest.raises(InputError, match="ring 1 of mask 1 must .*" if said.startswith("ring") else said):
        join_rings([[good], [good, ring]])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"vertices": np.zeros(6)}, r"vertices must have shape \[V, 2\] but got \[6\]"),
        ({"rings": [0, 2, 6]}, "ring 0 of mask 0 must have at least 3 vertices but has 2"),
        ({"rings": [0, 3, 5]}, "rings must ascend from 0 to 6, the number of vertices"),
        ({"rings": [0, 7, 6]}, "rings must ascend from 0 to 6"),
        ({"rings": [1, 3, 6]}, "rings must ascend from 0 to 6"),
        ({"rings": [0.0, 3.0, 6.0]}, r"rings must be integers \[N \+ 1\].* but got float64 \[3\]"),
        ({"masks": []}, r"masks must be integers \[N \+ 1\].* but got float64 \[0\]"),
        ({"masks": [0, 3]}, "masks must ascend from 0 to 2, the number of rings"),
        ({"sizes": [[4, 4], [4, 4]]}, "sizes must have a row for each of 1 masks but has 2"),
        ({"sizes": [[65536, 32768]]}, r"sizes\[0\] must be .* but is 65536 x 32768"),
        ({"sizes": [[-1, 4]]}, r"sizes\[0\] must be at least 0 x 0"),
        ({"rule": "even-odd"}, "rule must be one of 'coco', 'centre' but got 'even-odd'"),
    ],
)
def test_arguments_that_are_none_are_named(changed: dict[str, Any], said: str) -> None:
    given = {"vertices": np.ones((6, 2)), "rings": [0, 3, 6], "masks": [0, 2], "sizes": [[4, 4]], **changed}
    with pytest.raises(InputError, match=said):
        rasterise(**given)


@pytest.mark.parametrize("rule", ["coco", "centre"])
def test_edges_across_many_columns(rule: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for rings in ([[0, 0, 2e8, 9, 0, 5]], [[0, 0, 5e6, 9, 0, 5], [0, 0, 5e6, 9, 0, 5]]):
        message = rf"ring {len(rings) - 1} of mask 1 must leave the mask with at most 16777216 crossings"
        with pytest.raises(InputError, match=message):
            runs_of([[[0, 0, 4, 0, 4, 4]], rings], [(10, 200_000_000)] * 2, rule)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB


@pytest.mark.parametrize("rule", ["coco", "centre"])
def test_large_coordinates_cost_neither_memory_nor_time(rule: str) -> None:
    far, wide = 1e8, 2_000_000
    polygons: list[Polygon] = [
        [[-far, -far, far, -far, far, far, -far, far]],
        [[-2e8, -2e8, 2e8, -1e8, far, 2e8]],
        [[3, -2e8, 4, 2e8, 5, -2e8]],
        [[0, 0, wide, 0, wide, 1, 0, 1]],
        [[0, 0, 1, 0, 1, 1], [far, 0, far + 1, 0, far, 1]],
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = runs_of(polygons, [(480, 640)] * 3 + [(1, 2**31 - 1)] * 2, rule)
    assert found[0] == [0, 480 * 640] and [sum(runs) for runs in found[1:]] == [480 * 640] * 2 + [2**31 - 1] * 2
    assert found[3] == [0, wide, 2**31 - 1 - wide]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
