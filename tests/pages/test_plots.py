"""Plots: their marks lie where their numbers say, ticks are round, and hostile names stay text."""

from __future__ import annotations

import math
import random
import re
from xml.etree import ElementTree

import pytest

from tests.fuzz import seeds
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.plots import (
    LINKED,
    Axis,
    Cell,
    Spot,
    TrendPoint,
    cells,
    round_step,
    scatter,
    shade_limits,
    shade_of,
    tick_name,
    trend,
)
from valor_gpu.pages.texts import Html

HOSTILE = '"><script>f()</script>'


def points(values: list[float], series: list[int] | None = None, half: float = 0.02) -> list[TrendPoint]:
    return [
        TrendPoint(Estimate(v, v - half, v + half), s, f"run {k} {HOSTILE}", f"tick {k}", f"/runs/{k}")
        for k, (v, s) in enumerate(zip(values, series or [0] * len(values)))
    ]


PLOTS = [
    trend(points([0.5]), ["A"], HOSTILE),
    trend(points([0.5, 0.5], half=0.0), ["A"], "flat"),
    trend(points([0.1, 0.9, 0.2], [0, 1, 0]), ["A", f"B: {HOSTILE}"], "two"),
    trend(points([-3e9, 1e9], [0, 1]), ["A", "B: not comparable"], "large"),
    trend(points([k / 1000 for k in range(LINKED + 1)]), ["A"], "many"),
    trend([TrendPoint(Estimate(0.5), 0, "no interval", "", "", True)], ["A"], "partial"),
    scatter([Spot(1, 2, 3, HOSTILE, "/x?a=1&b=2"), Spot(5, 5, 1, "one")], (1, 5), (1, 5), (HOSTILE, "b"), "points"),
    scatter([], (0, 1), (2, 2), ("a", "b"), "none"),
    cells([Cell(0, 0, 4, HOSTILE, "/x"), Cell(3, 1, 90, "b")], (4, 2), (0, 1), (-1, 1), ("a", HOSTILE), "cells"),
]


@pytest.mark.parametrize("plot", PLOTS)
def test_a_plot_is_well_formed_and_says_its_numbers(plot: Html) -> None:
    found = ElementTree.fromstring(plot)
    links = list(found.iter("a"))
    assert found.get("role") == ("group" if links else "img") and found.get("aria-label")
    assert all(link.get("aria-label") and link.get("href") for link in links)
    assert [link.get("tabindex") for link in links] == ["0", *["-1"] * (len(links) - 1)][: len(links)]
    assert "script" not in [element.tag for element in found.iter()]
    assert not re.search(r"nan|inf\b|style=", plot)
    width, height = float(found.get("width") or 0), float(found.get("height") or 0)
    for element in found.iter("text"):
        x, half = float(element.get("x") or 0), len(element.text or "") * 6.8
        left = {"start": x, "middle": x - half / 2, "end": x - half}[element.get("text-anchor") or ""]
        assert -1 <= left <= width and 0 <= float(element.get("y") or 0) <= height, element.text
    for line in found.iter("line"):
        assert all(-1 <= float(line.get(name) or 0) <= max(width, height) for name in ("x1", "x2", "y1", "y2"))


def axis_of(plot: Html) -> tuple[list[float], list[float]]:
    """Numbers of the vertical axis, and the px of their lines."""
    found = ElementTree.fromstring(plot)
    names = [each for each in found.iter("text") if each.get("text-anchor") == "end" and not each.get("class")]
    values = [float((each.text or "").replace("\u2212", "-").replace(",", "")) for each in names]
    return values, [float(each.get("y") or 0) - 4 for each in names]


def value_at(plot: Html, y: float) -> float:
    values, places = axis_of(plot)
    return values[0] + (y - places[0]) * (values[-1] - values[0]) / (places[-1] - places[0])


@pytest.mark.parametrize("seed", seeds(4))
def test_marks_of_a_trend_lie_at_their_numbers(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.uniform(-2, 5) for _ in range(12)]
    plot = trend(points(values, half=0.3), ["A"], "seeded")
    marks = [float(y) for y in re.findall(r'class="spot" d="M[\d.]+ ([\d.]+)', plot)]
    assert [value_at(plot, y) for y in marks] == pytest.approx(values, abs=0.03)
    ends = re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", plot)
    assert [value_at(plot, float(low)) for low, _ in ends] == pytest.approx([v - 0.3 for v in values], abs=0.03)
    assert [value_at(plot, float(high)) for _, high in ends] == pytest.approx([v + 0.3 for v in values], abs=0.03)


def lines(plot: Html) -> list[int]:
    """How many points each line joins."""
    return [len(d.split("L")) for d in re.findall(r'class="line series-\d" d="M([^"]*)"', plot)]


def test_lines_join_the_runs_of_a_series_alone() -> None:
    assert lines(trend(points([1, 2, 3, 4, 5], [0, 1, 0, 1, 0]), ["A", "B: x"], "")) == [3, 2]
    assert lines(trend(points([1, 2, 3], [0, 1, 2]), ["A", "B: x", "C: y"], "")) == []
    partial = [each._replace(is_partial=k == 1) for k, each in enumerate(points([1, 2, 3]))]
    plot = trend(partial, ["A"], "")
    assert lines(plot) == [2] and plot.count('class="spot hollow"') == 1


def test_a_break_is_said_in_words_where_all_other_series_have_ended() -> None:
    after = trend(points([1, 2, 3, 4], [0, 0, 1, 1]), ["A", "B: not comparable, other data"], "")
    assert "B: not comparable, other data" in after and after.count('class="limit"') == 1
    between = trend(points([1, 2, 3], [0, 1, 0]), ["A", "B: not comparable, other data"], "")
    assert 'class="limit"' not in between and ">B<" in between and ">A<" in between
    alone = trend(points([1, 2]), ["A"], "")
    assert ">A<" not in alone


def test_a_thousand_runs_are_all_drawn_in_a_small_page() -> None:
    plot = trend(points([k / 1000 for k in range(1000)]), ["A"], "")
    dots = re.findall(r'class="dots" d="([^"]*)"', plot)
    assert dots[0].count("h0") == 1000 and plot.count("V") == 1000 and len(plot) < 70_000
    assert "<a" not in plot


@pytest.mark.parametrize("seed", seeds(6))
def test_ticks_are_round_readable_and_within_the_axis(seed: int) -> None:
    draw = random.Random(seed)
    low = draw.uniform(-1, 1) * 10 ** draw.randint(-4, 6)
    axis = Axis(low, low + 10 ** draw.uniform(-3, 6), 0, 100)
    values, names = axis.ticks(), axis.names()
    assert 2 <= len(values) <= 7 and len(set(names)) == len(names)
    step = values[1] - values[0]
    assert all(axis.low - step * 1e-6 <= value <= axis.high + step * 1e-6 for value in values)
    assert re.fullmatch(r"(1|2|2\.5|5)0*e.*", f"{step / 10 ** math.floor(math.log10(step) + 1e-9):.6g}e")
    for value, name in zip(values, names):
        assert float(name.replace("\u2212", "-").replace(",", "")) == pytest.approx(value, abs=step * 0.01)


def test_steps_and_names() -> None:
    assert [round_step(x) for x in (0.011, 0.02, 0.021, 0.26, 5.1)] == pytest.approx([0.02, 0.02, 0.025, 0.5, 10])
    assert (
        tick_name(-0.5, 0.25) == "\u22120.50" and tick_name(12500, 2500) == "12,500" and tick_name(-0.0, 0.1) == "0.0"
    )
    assert tick_name(3e9, 1e9) == "3e+09"


@pytest.mark.parametrize("ends", [(2.0, 2.0), (0.0, 0.0), (-4.0, -4.0)])
def test_an_axis_without_width_gets_one(ends: tuple[float, float]) -> None:
    axis = Axis(*ends, 0, 100)
    assert axis.at(ends[0]) == pytest.approx(50) and axis.names()


def test_points_lie_at_both_numbers_and_their_area_is_the_count() -> None:
    plot = scatter([Spot(0, 0, 100, "a"), Spot(1, 10, 25, "b")], (0, 1), (0, 10), ("x", "y"), "")
    found = re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', plot)
    assert [value_at(plot, float(y)) for _, y, _ in found] == pytest.approx([0, 10], abs=0.05)
    assert float(found[0][2]) == pytest.approx(2 * float(found[1][2]), abs=0.1)
    assert float(found[0][0]) < float(found[1][0])


def test_cells_fill_the_grid_from_the_lower_left() -> None:
    filled = [Cell(i, j, 1 + i, f"{i} {j}") for i in range(4) for j in range(2)]
    plot = cells(filled, (4, 2), (0, 4), (0, 2), ("x", "y"), "")
    boxes = re.findall(r'class="heat-(\d)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', plot)
    corners = {(float(x), float(y)) for _, x, y, _, _ in boxes}
    assert len(corners) == 8
    bottom = float(boxes[0][2]) + float(boxes[0][4]) + 1
    assert value_at(plot, bottom) == pytest.approx(0, abs=0.01)
    assert value_at(plot, float(boxes[1][2])) == pytest.approx(2, abs=0.01)
    assert [int(shade) for shade, *_ in boxes[::2]] == [2, 3, 4, 5]


@pytest.mark.parametrize("seed", seeds(4))
def test_shades_are_ordered_and_cover_all_counts(seed: int) -> None:
    draw = random.Random(seed)
    counts = [int(10 ** draw.uniform(0, 5)) for _ in range(40)]
    limits = shade_limits(counts)
    assert limits == sorted(set(limits)) and limits[-1] == max(counts) and len(limits) <= 5
    shades = [shade_of(n, limits) for n in sorted(counts)]
    assert shades == sorted(shades) and shades[-1] == 5 and min(shades) >= 1
    assert shade_limits([]) == [] and shade_limits([7]) == [1, 2, 3, 4, 7]
