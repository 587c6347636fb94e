"""Charts are images with words; hostile names cannot leave their text."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from valor_gpu.pages.charts import BarLink, Estimate, bars, histogram, icon, interval, pips, rate_bar, severity_bars
from valor_gpu.pages.texts import Html

HOSTILE = '"><script>f()</script>'
CHARTS = [
    bars(["1", HOSTILE], [3, 0], HOSTILE, Estimate(0.2, 0.1, 0.4)),
    bars(["1"], [0], "none"),
    severity_bars([900, 4, 2, 0], 2, 4, HOSTILE),
    severity_bars([0, 0, 0, 0], 1, 0, "none"),
    histogram([1, 5, 0], [(0, HOSTILE), (0.5, "0.5"), (1, "1")], HOSTILE, Estimate(0.4)),
    histogram([0, 0], [], "none"),
    rate_bar(Estimate(0.25, 0.1, 0.4), HOSTILE),
    interval(Estimate(0.08, 0.02, 0.14), (-0.2, 0.2), HOSTILE, "better"),
    interval(Estimate(0.0), (0.0, 0.0), "no width"),
]


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_is_well_formed_and_has_a_label(chart: Html) -> None:
    found = ElementTree.fromstring(chart)
    assert found.get("role") == "img" and found.get("aria-label")
    assert "script" not in [element.tag for element in found.iter()]
    assert not re.search(r"nan|inf|style=", chart)
    width = float(found.get("width") or 0)
    assert all(0 <= float(rect.get("x") or 0) <= width for rect in found.iter("rect"))


def heights(chart: Html) -> list[float]:
    return [float(found) for found in re.findall(r'height="([\d.]+)" class="(?:bar-mark|sev-fill)', chart)]


def test_bars_are_as_high_as_their_counts() -> None:
    assert heights(bars("12345", [44, 77, 138, 336, 596], "")) == pytest.approx(
        [86 * n / 596 for n in (44, 77, 138, 336, 596)], abs=0.05
    )


def test_a_bar_above_the_scale_is_broken_and_prints_its_count() -> None:
    chart = severity_bars([1171, 17, 8, 0], 2, 41, "violence")
    assert heights(chart) == pytest.approx([80, 80 * 17 / 41, 80 * 8 / 41, 0], abs=0.05)
    assert chart.count('class="gap"') == 1 and ">1,171<" in chart
    assert heights(severity_bars([0, 0, 0, 1], 2, 1000, "one is seen"))[3] == 2


def test_the_mean_stands_on_the_scale_of_the_bars() -> None:
    chart = bars("12345", [0, 0, 0, 0, 9], "", Estimate(4, 4, 4), width=500)
    assert 'cx="450.0"' in chart  # the middle of the fifth bar
    assert 'cx="75.0"' in histogram([1, 1], [], "", Estimate(0.25), width=300)


def test_an_interval_keeps_to_its_axis() -> None:
    chart = interval(Estimate(5.0, -5.0, 9.0), (-1.0, 1.0), "", "worse", width=112)
    assert 'cx="106.0"' in chart and 'x1="6.0"' in chart and 'class="worse"' in chart


def test_icons_and_pips_are_passed_over_by_screen_readers() -> None:
    assert 'aria-hidden="true"' in icon("failed") and 'aria-hidden="true"' in pips(3)
    assert [pips(value).count('class="on"') for value in (1, 3, 4.5, 5)] == [1, 3, 5, 5]
    assert 'width="2.5"' in pips(4.5)


LINKS = [BarLink(f"?if=a&at={i}", f"rows with {i}: 7") for i in range(4)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda links: bars("1234", [3, 1, 2, 5], HOSTILE, links=links),
        lambda links: severity_bars([900, 4, 2, 1], 2, 4, HOSTILE, links=links),
        lambda links: histogram([3, 1, 2, 5], [(0, "0")], HOSTILE, links=links),
        lambda links: rate_bar(Estimate(0.25, 0.2, 0.3), HOSTILE, links=links[:2]),
    ],
)
def test_bars_are_links_of_which_one_is_a_stop_of_the_tab_key(draw: Callable[[list[BarLink]], Html]) -> None:
    linked, bare = ElementTree.fromstring(draw(LINKS)), ElementTree.fromstring(draw([]))
    assert linked.attrib["role"] == "group" and bare.attrib["role"] == "img"
    found = list(linked.iter("a"))
    assert [each.attrib["href"] for each in found] == [link.address for link in LINKS[: len(found)]]
    assert [each.attrib["aria-label"] for each in found] == [link.words for link in LINKS[: len(found)]]
    assert [each.attrib["tabindex"] for each in found] == ["0", *["-1"] * (len(found) - 1)]
    assert not list(bare.iter("a"))
    marks = {"place"}
    drawn = [dict(each.attrib) for each in linked.iter("rect") if each.attrib["class"] not in marks]
    assert sorted(map(str, drawn)) == sorted(str(dict(each.attrib)) for each in bare.iter("rect"))


def test_a_bar_without_an_address_is_no_link() -> None:
    links = [BarLink("", "none"), BarLink("?a", "some"), BarLink('?"><script>', '"><script>')]
    chart = bars("123", [0, 1, 2], "x", links=links)
    found = list(ElementTree.fromstring(chart).iter("a"))
    assert [each.attrib["href"] for each in found] == ["?a", '?"><script>'] and "<script>" not in chart
    assert found[0].attrib["tabindex"] == "0"
    assert 'role="img"' in bars("1", [0], "x", links=[BarLink("", "none")])


def test_the_word_defect_stands_over_all_numbers() -> None:
    chart = ElementTree.fromstring(severity_bars([1, 1, 137, 9], 2, 137, "x"))
    words = {each.text: float(each.attrib["y"]) for each in chart.iter("text")}
    assert words["defect"] + 12 < min(y for text, y in words.items() if text and text.isdecimal())
