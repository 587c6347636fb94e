"""IoU of rotated boxes: every kernel equals the reference bit for bit, the reference equals shapely."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from testing.examples_rotated import corners
from tests.fuzz import seeds
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.boxes.op import box_iou
from valor_gpu.ops.rotated import op as rotated
from valor_gpu.ops.rotated.cpu import CORNERS, DEGREES, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE
from valor_gpu.ops.rotated.op import rotated_box_iou
from valor_gpu.ops.rotated.reference import direction

Op = Callable[..., tuple[Tensor, Tensor]]
GOLDEN = Path(__file__).parents[1] / "data" / "rotated_iou.json.gz"
"""Rows with the areas that shapely 2.2 finds, written by ``python -m tests.ops.rotated_golden``."""


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "rotated_iou", rotated._iou_on_cuda)


def random_rows(n: int, seed: int, spread: float = 30.0) -> Tensor:
    """float64 ``[n, 5]`` on a coarse grid: edges coincide, some are aligned, some have no area."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.random((n, 5)) * [spread, spread, 20, 20, 0])
    rows[:, 4] = rng.choice([0, 30, 45, 90, -135, 180, 270, 17.3, 1e-9, 90.0000001], n)
    return torch.from_numpy(rows)


def check(op: Op, *arguments: Any) -> Tensor:
    iou, error = op(*arguments)
    expected, wrong = _library.reference("rotated_iou")(*arguments)
    assert torch.equal(iou.view(torch.int64), expected.view(torch.int64))
    assert int(error) == int(wrong)
    assert bool(((iou >= 0) & (iou <= 1)).all())
    return iou


# ------------------------------------------------------------------------------------------------ kernels, bit for bit


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("code", [CORNERS, DEGREES, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE])
def test_every_kernel_equals_the_reference(op: Op, code: int, dtype: torch.dtype) -> None:
    first, second = random_rows(33, 1), random_rows(31, 2)
    if code == CORNERS:
        first, second = corners(first), corners(second).roll(2, 1)
    crowd = torch.arange(31) % 3 == 0
    iou = check(op, first.to(dtype), second.to(dtype), crowd, code)
    assert 0.1 < float((iou > 0).double().mean()) < 0.9


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated()
    check(
        kernel("simulated", "rotated_iou", rotated._iou_on_cuda), random_rows(30, 3), random_rows(30, 4), None, DEGREES
    )


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (1, 1), (40, 200)])
def test_sizes(op: Op, sizes: tuple[int, int]) -> None:
    iou = check(op, random_rows(sizes[0], 3), random_rows(sizes[1], 4), None, DEGREES)
    assert iou.shape == sizes


def test_rows_that_are_no_boxes_are_reported_and_have_no_area(op: Op) -> None:
    rows = torch.tensor([[5.0, 5, 4, 4, 0], [5, 5, -4, 4, 0], [5, math.nan, 4, 4, 0], [5, 5, 4, 4, math.inf]])
    iou, error = op(rows, rows, None, DEGREES)
    assert iou[0].tolist() == [1, 0, 0, 0] and not iou[1:].any()
    assert rotated._describe_row(int(error)) == "boxes1[1] must have a width and a height of at least 0"


@pytest.mark.parametrize("seed", seeds(3))
def test_odd_numbers_give_what_the_reference_gives(op: Op, seed: int) -> None:
    """Tiny, huge, equal and collinear: never NaN."""
    rng = np.random.default_rng(seed)
    values = [0.0, -0.0, 1.0, 2.0, 3.0, 1e-320, 1e-160, 1e-8, 1e8, 1e154, 1e160, 1e300, -1e300]
    for columns, code in ((5, DEGREES), (8, CORNERS)):
        rows = torch.from_numpy(rng.choice(values, (30, columns), p=[0.1, 0.05, 0.2, 0.2, 0.15, *[0.3 / 8] * 8]))
        if code == DEGREES:
            rows[:, 2:4] = rows[:, 2:4].abs()
        check(op, rows, rows, None, code)


def test_inputs_may_be_strided(op: Op) -> None:
    rows, crowd = random_rows(20, 5), torch.arange(20) % 2 == 0
    expected = op(rows, rows, crowd, DEGREES)[0]
    strided = (rows.T.contiguous().T, rows.repeat_interleave(2, 0)[::2], crowd.repeat_interleave(2)[::2])
    assert not any(t.is_contiguous() for t in strided)
    assert torch.equal(op(*strided, DEGREES)[0], expected)


# ---------------------------------------------------------------------------------------------------- against shapely


def check_areas(first: Tensor, second: Tensor, shared: NDArray[np.float64], box_format: str) -> None:
    """IoU against areas of intersections: off by at most 1e-12 of the larger area."""
    iou = rotated_box_iou(first, second, box_format=box_format).numpy()
    over = rotated_box_iou(
        first, second, box_format=box_format, crowd=torch.ones(len(second), dtype=torch.bool)
    ).numpy()
    own = [area_of(side) for side in (first, second)]
    larger = np.maximum(own[0][:, None], own[1][None])
    union = own[0][:, None] + own[1][None] - shared
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.nanmax(np.abs(iou * union - shared) / larger) <= 1e-12
        assert np.nanmax(np.abs(over * own[0][:, None] - shared) / larger) <= 1e-12


def area_of(rows: Tensor) -> NDArray[np.float64]:
    points = rows.numpy().astype(np.float64)
    if points.shape[1] == 5:
        return np.asarray(points[:, 2] * points[:, 3])
    x, y = points[:, 0::2] - points[:, :1], points[:, 1::2] - points[:, 1:2]
    return np.asarray(abs((x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1)) / 2)


def shapely_areas(first: Tensor, second: Tensor) -> NDArray[np.float64]:
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    polygons = [shapely.polygons(side.numpy().reshape(-1, 4, 2)) for side in (first, second)]
    return np.asarray(shapely.area(shapely.intersection(polygons[0][:, None], polygons[1][None])))


@pytest.mark.parametrize("seed", seeds(4))
def test_equals_shapely_on_random_boxes(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    rows = [torch.from_numpy(rng.random((60, 5)) * [40, 40, 30, 30, 720] + [0, 0, 0.5, 0.5, -360]) for _ in range(2)]
    shared = shapely_areas(corners(rows[0]), corners(rows[1]))
    check_areas(rows[0], rows[1], shared, "cxcywha")
    check_areas(corners(rows[0]), corners(rows[1]), shared, "xyxyxyxy")


def convex_rows(n: int, seed: int) -> Tensor:
    """float64 ``[n, 8]``: four points of an ellipse in order of their angle, half of them clockwise."""
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.random((n, 4)) * 2 * np.pi, 1)
    angles[::2] = angles[::2, ::-1]
    size, centre = rng.random((n, 2)) * 20 + 1, rng.random((n, 2)) * 30
    points = np.stack((np.cos(angles), np.sin(angles)), 2) * size[:, None] + centre[:, None]
    return torch.from_numpy(points.reshape(n, 8))


@pytest.mark.parametrize("seed", seeds(4))
def test_equals_shapely_on_convex_quadrilaterals(seed: int) -> None:
    first, second = convex_rows(60, seed), convex_rows(60, 1000 + seed)
    check_areas(first, second, shapely_areas(first, second), "xyxyxyxy")


def difficult_rows(seed: int) -> tuple[Tensor, Tensor]:
    """Rows against others that differ from them by almost nothing: near-parallel and shared edges, contained boxes."""
    rng = np.random.default_rng(seed)
    rows = rng.random((24, 5)) * [40, 40, 30, 30, 360] + [0, 0, 0.5, 0.5, 0]
    rows[:6] = np.round(rows[:6])
    rows[:6, 2:4] += 1
    rows[6:12, 4] = [0, 90, 180, 270, 45, 30]
    moved = [rows + rng.standard_normal(rows.shape) * scale for scale in (0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3)]
    along = rows.copy()  # shares an edge line: moved along its own width
    angle = np.deg2rad(rows[:, 4])
    along[:, 0] += rows[:, 2] * np.cos(angle)
    along[:, 1] -= rows[:, 2] * np.sin(angle)
    inside = rows.copy()
    inside[:, 2:4] /= 2
    quarter = rows[:, [0, 1, 3, 2, 4]] + [0, 0, 0, 0, 90]
    return torch.from_numpy(rows), torch.from_numpy(np.concatenate([*moved, along, inside, quarter]))


def exact_area(first: Sequence[float], second: Sequence[float]) -> float:
    """Area that two convex quadrilaterals share, in rational numbers."""
    polygon, other = ([tuple(map(Fraction, row[i : i + 2])) for i in (0, 2, 4, 6)] for row in (first, second))
    if twice_area(other) < 0:
        other.reverse()
    for (ax, ay), (bx, by) in zip(other, other[1:] + other[:1]):
        sides = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in polygon]
        kept = []
        for i, (x, y) in enumerate(polygon):
            if sides[i - 1] * sides[i] < 0:
                part = sides[i - 1] / (sides[i - 1] - sides[i])
                kept.append(tuple(a + part * (b - a) for a, b in zip(polygon[i - 1], (x, y))))
            if sides[i] >= 0:
                kept.append((x, y))
        polygon = kept
        if not polygon:
            return 0.0
    return float(abs(twice_area(polygon)) / 2)


def twice_area(points: Sequence[tuple[Fraction, ...]]) -> Fraction:
    return sum((ax * by - ay * bx for (ax, ay), (bx, by) in zip(points, [*points[1:], points[0]])), Fraction(0))


@pytest.mark.parametrize("seed", seeds(3))
def test_equals_rational_numbers_where_edges_nearly_coincide(seed: int) -> None:
    """Not shapely, which finds 0 for some boxes that differ in the last bit."""
    first, second = difficult_rows(seed)
    for i in range(len(first)):
        near = second[i :: len(first)]
        pair = [corners(side) for side in (first[i : i + 1], near)]
        shared = np.array([[exact_area(pair[0][0].tolist(), row) for row in pair[1].tolist()]])
        check_areas(first[i : i + 1], near, shared, "cxcywha")
        check_areas(*pair, shared, "xyxyxyxy")


def test_equals_the_golden_areas() -> None:
    """As above, where shapely is not installed."""
    for case in json.loads(gzip.decompress(GOLDEN.read_bytes())):
        first, second = (torch.tensor(case[name], dtype=torch.float64) for name in ("first", "second"))
        check_areas(first, second, np.array(case["shared"]), "xyxyxyxy" if first.shape[1] == 8 else "cxcywha")


# ------------------------------------------------------------------------------------------------------ by definition


def test_a_rotated_square_by_hand() -> None:
    """A unit square turned by 45 degrees leaves a regular octagon of area 2 (sqrt 2 - 1)."""
    square = torch.tensor([[7.0, 9.0, 1.0, 1.0, 0.0]], dtype=torch.float64)
    turned = square + torch.tensor([0, 0, 0, 0, 45.0])
    shared = 2 * (math.sqrt(2) - 1)
    assert float(rotated_box_iou(square, turned)) == pytest.approx(shared / (2 - shared), rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "direction_name", "angle"),
    [("degrees", "counterclockwise", 90.0), ("degrees", "clockwise", -90.0), ("radians", "clockwise", -math.pi / 2),
     ("radians", "counterclockwise", math.pi / 2)],
)  # fmt: skip
def test_unit_and_direction(unit: str, direction_name: str, angle: float) -> None:
    """A long box whose right end goes up by 30 degrees counterclockwise, as seen in the image."""
    row = torch.tensor([[0.0, 0.0, 100.0, 2.0, angle / 3]], dtype=torch.float64)
    end = 45 * np.array([math.cos(math.pi / 6), -math.sin(math.pi / 6)])
    small = torch.tensor([[end[0] - 0.1, end[1] - 0.1, end[0] + 0.1, end[1] - 0.1, end[0] + 0.1, end[1] + 0.1,
                           end[0] - 0.1, end[1] + 0.1]])  # fmt: skip
    names = {"angle_unit": unit, "angle_direction": direction_name}
    as_box = torch.tensor([[end[0], end[1], 0.2, 0.2, 0.0]], dtype=torch.float64)
    assert float(rotated_box_iou(row, as_box, **names)) == pytest.approx(0.04 / 200)  # inside
    assert float(rotated_box_iou(row * torch.tensor([1, 1, 1, 1, -1]), as_box, **names)) == 0
    turned = corners(torch.tensor([[0.0, 0.0, 100.0, 2.0, 30.0]]))
    assert float(rotated_box_iou(turned, small.double(), box_format="xyxyxyxy")) == pytest.approx(0.04 / 200)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270, 360, -90, -450, 3600])
def test_multiples_of_90_degrees_give_the_iou_of_boxes(degrees: int) -> None:
    """To the last bit, since rows become float64 before anything is computed; boxes may exceed 1 by rounding."""
    rng = np.random.default_rng(degrees % 7)
    boxes = torch.from_numpy(rng.random((200, 4)) * [50, 50, 20, 20])
    rows = torch.cat((boxes, torch.full((200, 1), float(degrees))), 1)
    if degrees % 180:
        rows = rows[:, [0, 1, 3, 2, 4]]
    crowd = torch.arange(200) % 4 == 0
    expected = box_iou(boxes, boxes, box_format="cxcywh", crowd=crowd).clamp(max=1)
    got = rotated_box_iou(rows, rows, crowd=crowd)
    expected.fill_diagonal_(1.0)
    assert torch.equal(got, expected)


def test_aligned_corners_give_the_iou_of_boxes() -> None:
    rng = np.random.default_rng(8)
    boxes = torch.from_numpy(rng.random((200, 4)) * 50)
    boxes[:, 2:] += boxes[:, :2]
    for order in ((0, 1, 2, 1, 2, 3, 0, 3), (2, 3, 2, 1, 0, 1, 0, 3)):  # clockwise, counterclockwise
        rows = boxes[:, list(order)]
        expected = box_iou(boxes, boxes).fill_diagonal_(1.0).clamp(max=1)
        assert torch.equal(rotated_box_iou(rows, rows, box_format="xyxyxyxy"), expected)


def test_equal_boxes_have_iou_1_exactly() -> None:
    rng = np.random.default_rng(9)
    rows = torch.from_numpy(rng.random((300, 5)) * [1e3, 1e3, 50, 50, 720] + [-500, -500, 1e-3, 1e-3, -360])
    every = [rows, rows + torch.tensor([0, 0, 0, 0, 0.0]), rows[:, [0, 1, 3, 2, 4]]]
    exact = (rows * 64).round() / 64  # so that adding 360 is exact
    for turned in (exact + torch.tensor([0, 0, 0, 0, 360.0]), exact - torch.tensor([0, 0, 0, 0, 180.0]),
                   exact[:, [0, 1, 3, 2, 4]] + torch.tensor([0, 0, 0, 0, 90.0])):  # fmt: skip
        assert rotated_box_iou(exact, turned).diagonal().tolist() == [1.0] * 300
    assert rotated_box_iou(rows, every[1]).diagonal().tolist() == [1.0] * 300
    quads = convex_rows(300, 9)
    for same in (quads, quads.roll(2, 1), quads.view(-1, 4, 2).flip(1).reshape(-1, 8)):
        assert rotated_box_iou(quads, same, box_format="xyxyxyxy").diagonal().tolist() == [1.0] * 300


def test_no_bit_depends_on_the_order_of_the_sides_or_on_whole_turns() -> None:
    first, second = difficult_rows(11)
    first, second = (first * 64).round() / 64, (second * 64).round() / 64
    iou = rotated_box_iou(first, second)
    assert torch.equal(rotated_box_iou(second, first), iou.T)
    assert torch.equal(rotated_box_iou(first + torch.tensor([0, 0, 0, 0, 360.0]), second), iou)
    assert torch.equal(rotated_box_iou(first, second - torch.tensor([0, 0, 0, 0, 720.0])), iou)


def test_far_from_zero_nothing_is_lost() -> None:
    """Centres and corners that move by a million, where both places can be represented."""
    first, second = difficult_rows(12)
    for rows in (first, second):
        rows[:, :2] = (rows[:, :2] * 1024).round() / 1024
    shift = torch.tensor([1e6, -1e6, 0, 0, 0])
    near, far = rotated_box_iou(first, second), rotated_box_iou(first + shift, second + shift)
    oblique = ((first[:, 4:] / 90).frac().abs() > 1e-6) & ((second[:, 4] / 90).frac().abs() > 1e-6)
    assert float((near - far)[oblique].abs().max()) < 1e-15  # touching boxes are ruled out or not
    assert float((near - far).abs().max()) < 1e-9  # aligned boxes are computed as box_iou does, at their place


def test_boxes_without_area_and_touching_edges() -> None:
    rows = torch.tensor([[0.0, 0, 4, 0, 30], [0, 0, 0, 0, 0], [0, 0, 4, 4, 0], [4, 0, 4, 4, 0], [4, 4, 4, 4, 90]])
    assert rotated_box_iou(rows, rows).tolist() == torch.diag(torch.tensor([0.0, 0, 1, 1, 1])).tolist()
    crowd = torch.ones(5, dtype=torch.bool)
    assert rotated_box_iou(rows, rows, crowd=crowd)[:2].sum() == 0
    points = [[1.0, 1] * 4, [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 2, 2, 1, 1, 3, 3], [0, 0, 4, 0, 4, 0, 0, 4]]
    iou = rotated_box_iou(torch.tensor(points), torch.tensor(points), box_format="xyxyxyxy")
    assert iou.tolist() == torch.diag(torch.tensor([0.0, 0, 0, 1])).tolist()  # the last is a triangle


def test_corners_on_an_edge_change_nothing() -> None:
    whole = torch.tensor([[0.0, 0, 6, 0, 0, 6, 0, 6]])  # a triangle, a corner repeated
    bent = torch.tensor([[0.0, 0, 2, 0, 6, 0, 0, 6]])  # a corner inside an edge
    assert rotated_box_iou(whole, bent, box_format="xyxyxyxy").tolist() == [[1.0]]


@pytest.mark.parametrize("degrees", [0.0, 30.0, 44.999, 45.0, 45.001, 89.0, 135.0, 225.0, 359.0, -1e-7, 1e5, 123456.75])
def test_sine_and_cosine(degrees: float) -> None:
    cosine, sine = direction(degrees)
    reduced = math.radians(math.fmod(degrees, 360.0))
    assert cosine == pytest.approx(math.cos(reduced), abs=4e-16)
    assert sine == pytest.approx(math.sin(reduced), abs=8e-16)


def test_sine_and_cosine_are_exact_at_quarter_turns() -> None:
    for quarter, expected in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
        for turns in (-3, 0, 1, 10**9):
            assert direction(90.0 * quarter + 360.0 * turns) == expected
    turned = torch.tensor([[0.0, 0, 4, 2, math.pi / 2]], dtype=torch.float64)
    upright = torch.tensor([[0.0, 0, 2, 4, 0]], dtype=torch.float64)
    assert rotated_box_iou(turned, upright, angle_unit="radians") == 1


# -------------------------------------------------------------------------------------------------------------- errors


BOX, QUAD = torch.tensor([[5.0, 5, 4, 2, 30]]), torch.tensor([[0.0, 0, 4, 0, 4, 4, 0, 4]])


@pytest.mark.parametrize(
    ("boxes", "kwargs", "said"),
    [
        (BOX[:, :4], {}, r"boxes1 must have shape \[N, 5\] but got \[1, 4\]"),
        (BOX, {"box_format": "xyxyxyxy"}, r"boxes1 must have shape \[N, 8\] but got \[1, 5\]"),
        (BOX, {"box_format": "cxcywh"}, "box_format must be one of 'xyxyxyxy', 'cxcywha' but got 'cxcywh'"),
        (BOX, {"angle_unit": "grad"}, "angle_unit must be one of 'degrees', 'radians' but got 'grad'"),
        (BOX, {"angle_direction": "cw"}, "angle_direction must be one of 'counterclockwise', 'clockwise' but got 'cw'"),
        (QUAD, {"box_format": "xyxyxyxy", "angle_unit": "radians"},
         "angle_unit must be 'degrees' but got 'radians': only box_format='cxcywha' has angles"),
        (BOX.to_sparse(), {}, r"boxes1 must be a dense tensor but is torch.sparse_coo"),
        (BOX, {"crowd": [True]}, "crowd must be Tensor but got list"),
        (BOX.long(), {}, "boxes1 must have dtype .*float64 but got torch.int64"),
        (BOX.tolist(), {}, "boxes1 must be Tensor but got list"),
        (BOX, {"crowd": torch.zeros(2, dtype=torch.bool)}, r"crowd must have shape \[1\] but got \[2\]"),
        (BOX * torch.tensor([1, 1, 1, -1, 1]), {}, r"boxes1\[0\] must have a width and a height of at least 0"),
        (BOX * math.inf, {}, r"boxes1\[0\] must be finite"),
        (QUAD[:, [0, 1, 4, 5, 2, 3, 6, 7]], {"box_format": "xyxyxyxy"}, r"boxes1\[0\] must be the corners of a convex"),
        (torch.tensor([[0.0, 0, 4, 0, 1, 1, 0, 4]]), {"box_format": "xyxyxyxy"}, "corners of a convex quadrilateral"),
    ],
)  # fmt: skip
def test_errors_name_the_argument_and_the_row(boxes: Any, kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        rotated_box_iou(boxes, QUAD if kwargs.get("box_format") == "xyxyxyxy" else BOX, **kwargs)


def test_iou_has_no_gradient() -> None:
    assert not rotated_box_iou(BOX.clone().requires_grad_(), BOX).requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounded_corners_of_thin_boxes_are_no_error(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(13)
    thin = torch.from_numpy(rng.random((2000, 5)) * [1000, 1000, 200, 1e-3, 360])
    rows = corners(thin).to(dtype)
    assert bool(rotated_box_iou(rows, rows[:50], box_format="xyxyxyxy").isfinite().all())


def test_opcheck() -> None:
    args = (random_rows(4, 1), random_rows(3, 2), torch.tensor([True, False, True]), DEGREES)
    torch.library.opcheck(torch.ops.valor_gpu.rotated_iou.default, args)


# ------------------------------------------------------------------------------------------------ pairs of every kind


def pairs_of(kind: str, n: int = 2000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64 ``[n, 5]``: the n-th box of one side with the n-th of the other."""
    rng = np.random.default_rng([len(kind), 77])
    first, second = (rng.random((n, 5)) * [40, 40, 30, 30, 720] + [0, 0, 0.5, 0.5, -360] for _ in range(2))
    angle = np.deg2rad(first[:, 4])
    if kind == "aligned":
        first[:, 4], second[:, 4] = (rng.choice([-360, -270, -180, -90, 0, 90, 180, 270, 360], n) for _ in range(2))
    elif kind in ("tiny", "huge"):
        first[:, :4], second[:, :4] = (side[:, :4] * (1e-6 if kind == "tiny" else 1e7) for side in (first, second))
    elif kind == "slivers":
        first[:, 2:4], second[:, 2:4] = (side[:, 2:4] * [1e4, 1e-3] for side in (first, second))
    elif kind == "contained":
        second = first.copy()
        second[:, 2:4] *= rng.random((n, 1))
    elif kind == "half":  # moved along its own width, so that two edges lie on one line
        second = first.copy()
        second[:, 0] += first[:, 2] / 2 * np.cos(angle)
        second[:, 1] -= first[:, 2] / 2 * np.sin(angle)
    elif kind == "tiny in huge":
        first[:, 2:4] *= 1e-5
        first[:, :2] = second[:, :2] + rng.random((n, 2)) - 0.5
    elif kind == "far":
        first[:, :2] += 1e5
        second[:, :2] += 1e5
    return first, second


KINDS = ("random", "aligned", "tiny", "huge", "slivers", "contained", "half", "tiny in huge", "far")


def iou_of_pairs(first: Tensor, second: Tensor) -> NDArray[np.float64]:
    blocks = [rotated_box_iou(a, b).diagonal() for a, b in zip(first.split(100), second.split(100))]
    return np.asarray(torch.cat(blocks).numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_every_kind_equal_shapely(kind: str) -> None:
    """18,000 pairs; coordinates of 1e5 leave shapely, which gets corners, ten digits."""
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    first, second = map(torch.from_numpy, pairs_of(kind))
    polygons = [shapely.polygons(corners(side).numpy().reshape(-1, 4, 2)) for side in (first, second)]
    shared = shapely.area(shapely.intersection(*polygons))
    union = area_of(first) + area_of(second) - shared
    iou = iou_of_pairs(first, second)
    np.testing.assert_allclose(iou, shared / union, rtol=0, atol=1e-11 if kind == "far" else 2e-13)
    assert float((iou > 0).mean()) > 0.3
    assert (iou == iou_of_pairs(second, first)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_the_same_boxes_in_double_precision(kind: str) -> None:
    first, second = (torch.from_numpy(side).float() for side in pairs_of(kind))
    assert (iou_of_pairs(first, second) == iou_of_pairs(first.double(), second.double())).all()
    assert (iou_of_pairs(first, first) == 1).all()
