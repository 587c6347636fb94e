"""Two metrics of a run: counts against a plain loop, what each cell leads to, and what is left out."""

from __future__ import annotations

import html
import math
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from starlette.testclient import TestClient

from tests.fuzz import seeds
from tests.web.pages import client, text_of
from valor_gpu.stats.correlations import correlation
from valor_gpu.store import Store, StoredRow, StoredScore

INFOS = [
    {"name": "gpt_fluency", "kind": "quality", "low": 1, "high": 5},
    {"name": "gpt_coherence", "kind": "quality", "low": 1, "high": 5},
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1},
    {"name": "words", "kind": "custom", "low": 0, "high": None},
]
Scores = dict[str, dict[int, float | None]]


def draw_scores(seed: int, n: int) -> Scores:
    """Scores of rows, a few failed, a few never given."""
    draw = random.Random(seed)
    found: Scores = {each["name"]: {} for each in INFOS}  # type: ignore[misc]
    for row in range(1, n + 1):
        base = draw.gauss(0, 1)
        values: dict[str, float] = {
            "gpt_fluency": min(max(round(3.4 + base), 1), 5),
            "gpt_coherence": min(max(round(3 + base + draw.gauss(0, 0.7)), 1), 5),
            "f1_score": min(max(0.5 + 0.3 * base + draw.gauss(0, 0.1), 0), 1),
            "words": draw.randint(1, 90) + draw.choice([0, 0.5]),
        }
        for name, value in values.items():
            if draw.random() > 0.03:
                found[name][row] = float(value) if draw.random() > 0.05 else None
    return found


def fill(path: Path, scores: Scores, n: int, **config: Any) -> str:
    with Store(path) as store:
        run = store.create_run("two", {"version": 1, "evaluators": INFOS, "data": {"source": "b.csv"}, **config})
        with run.lease():
            run.add_rows([StoredRow(row, f"k{row}", {"question": "?", "answer": "!"}) for row in range(1, n + 1)])
            run.add_scores(
                StoredScore(row, name, 0, value, "ok" if value is not None else "timeout")
                for name, of_rows in scores.items()
                for row, value in of_rows.items()
            )
            run.finish("finished", {})
        return run.id


def conditions(address: str) -> dict[str, tuple[str, float, float]]:
    """Metric to its test and bounds, as an address has them."""
    found = {}
    for name, text in parse_qsl(address.partition("?")[2].partition("#")[0]):
        assert name == "if"
        metric, test, value = text.rsplit(":", 2)
        low, _, high = value.partition("..")
        found[metric] = (test, float(low), float(high or low))
    return found


def holds(value: float | None, test: str, low: float, high: float, end: float | None) -> bool:
    """Whether a score lies in a cell: low within, high without unless it ends the scale."""
    if value is None:
        return False
    return value == low if test == "equals" else low <= value < high or value == high == end


def links(page: str, inside: str) -> list[tuple[str, int]]:
    """Addresses of the rows of each cell of a part of the page, and the count that it says."""
    part = re.search(inside, page, re.DOTALL)
    assert part is not None
    found = re.findall(r'<a (?:class="plain" )?href="([^"]*)"[^>]*aria-label="([\d,]+) rows?[^"]*"', part[0])
    return [(html.unescape(address), int(n.replace(",", ""))) for address, n in found]


def check_cells(found: list[tuple[str, int]], scores: Scores, x: str, y: str) -> None:
    """Each cell's count is that of a plain loop over the rows, and each row lies in one cell."""
    ends = {each["name"]: each["high"] for each in INFOS}
    seen = 0
    for address, n in found:
        wanted = conditions(address)
        assert set(wanted) == {x, y}
        rows = [
            row
            for row in scores[x]
            if all(holds(scores[name].get(row), *wanted[name], ends[name]) for name in (x, y))  # type: ignore[arg-type]
        ]
        assert len(rows) == n > 0, address
        seen += n
    assert seen == sum(scores[y].get(row) is not None for row, value in scores[x].items() if value is not None)


@pytest.mark.parametrize("seed", seeds(2))
def test_whole_scores_are_a_table_of_exact_counts(tmp_path: Path, seed: int) -> None:
    scores = draw_scores(seed, 900)
    uid = fill(tmp_path / "s.sqlite", scores, 900)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/scatter?x=gpt_fluency&y=gpt_coherence")
    check_cells(links(found.text, r'<table class="heat">.*?</table>'), scores, "gpt_fluency", "gpt_coherence")
    both = [r for r, v in scores["gpt_fluency"].items() if v is not None and scores["gpt_coherence"].get(r) is not None]
    assert f"Rows with both {len(both):,} " in text_of(found)
    wanted = correlation([scores["gpt_fluency"][r] for r in both], [scores["gpt_coherence"][r] for r in both])  # type: ignore[arg-type]
    assert f"Pearson, a straight line {wanted.value:.3f} 95% interval {wanted.low:.3f} to {wanted.high:.3f}" in text_of(
        found
    )
    have = [{r for r, v in scores[name].items() if v is not None} for name in ("gpt_fluency", "gpt_coherence")]
    neither = 900 - len(have[0] | have[1])
    said = (f"{len(have[1] - have[0])} rows without gpt_fluency, {len(have[0] - have[1])} rows without gpt_coherence, "
            f"{neither} row{'s' if neither != 1 else ''} without both")  # fmt: skip
    assert said in text_of(found)


@pytest.mark.parametrize("pair", [("f1_score", "words"), ("gpt_fluency", "f1_score"), ("words", "gpt_coherence")])
@pytest.mark.parametrize("seed", seeds(2))
def test_counted_cells_are_exact(tmp_path: Path, seed: int, pair: tuple[str, str]) -> None:
    scores = draw_scores(seed, 1500)
    uid = fill(tmp_path / "s.sqlite", scores, 1500)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/scatter?x={pair[0]}&y={pair[1]}&all=1")
    if "Cells as a table" not in found.text:  # few positions: points
        check_points(found.text, scores, *pair)
        return
    cells = links(found.text, r'<svg class="chart plot".*?</svg>')
    check_cells(cells, scores, *pair)
    assert links(found.text, r"Cells as a table</summary>.*?</details>") == cells
    shades = re.findall(r'class="heat-(\d)" x=', found.text)
    counts = [n for _, n in cells]
    assert len(shades) == len(counts) and shades[counts.index(max(counts))] == "5"
    assert f"to {max(counts):,} rows" in text_of(found), "the legend ends with the largest count"


def check_points(page: str, scores: Scores, x: str, y: str) -> None:
    expected: dict[tuple[float, float], int] = {}
    for row, value in scores[x].items():
        other = scores[y].get(row)
        if value is not None and other is not None:
            expected[value, other] = expected.get((value, other), 0) + 1
    said = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td><td class=\"n\"><a[^>]*>([\d,]+)</a>", page)
    assert sorted(int(n.replace(",", "")) for _, _, n in said) == sorted(expected.values())
    assert page.count('class="spot see"') == len(expected)


@pytest.mark.parametrize("pair", [("f1_score", "words"), ("gpt_fluency", "gpt_coherence"), ("words", "gpt_fluency")])
def test_a_cell_leads_to_as_many_rows_as_it_counts(tmp_path: Path, pair: tuple[str, str]) -> None:
    uid = fill(tmp_path / "s.sqlite", draw_scores(8, 1500), 1500)
    browser = client(tmp_path / "s.sqlite")
    found = browser.get(f"/runs/{uid}/scatter?x={pair[0]}&y={pair[1]}")
    cells = links(found.text, r'<svg class="chart plot".*?</svg>|<table class="heat">.*?</table>')
    assert len(cells) >= 15
    for address, n in [cells[0], cells[-1], max(cells, key=lambda each: each[1]), *random.Random(2).sample(cells, 8)]:
        assert f"of {n:,} that match" in text_of(browser.get(address)), address


def test_few_rows_are_points_and_a_lone_one_leads_to_its_row(tmp_path: Path) -> None:
    scores: Scores = {"f1_score": {1: 0.1, 2: 0.1, 3: 0.75}, "words": {1: 7.0, 2: 7.0, 3: 9.5}}
    uid = fill(tmp_path / "s.sqlite", scores, 3)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/scatter?x=f1_score&y=words")
    check_points(found.text, scores, "f1_score", "words")
    assert f'href="/runs/{uid}/rows/3"' in found.text
    address = next(a for a, n in links(found.text, r'<svg class="chart plot".*?</svg>') if n == 2)
    assert conditions(address) == {"f1_score": ("equals", 0.1, 0.1), "words": ("equals", 7.0, 7.0)}
    assert "no interval: an interval takes 4 clusters of pairs but there are 3" in text_of(found)


def test_repeats_are_averaged_and_epochs_are_clusters(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    scores = draw_scores(3, 60)
    uid = fill(path, scores, 60, epochs=3, repeats=2)
    with Store(path) as store:
        run = store.run(uid)
        row = next(r for r, v in scores["f1_score"].items() if v is not None and scores["words"].get(r) is not None)
        first = scores["f1_score"][row]
        assert first is not None
        run.add_scores([StoredScore(row, "f1_score", 1, 0.25)])
    shown = text_of(client(path).get(f"/runs/{uid}/scatter?x=f1_score&y=words"))
    assert "count as one in the width of the intervals: 20 questions" in shown
    assert "mean of its repeats" in shown and f"row {row}: f1_score {(first + 0.25) / 2:.3f}" in shown


def test_a_constant_score_has_no_correlation(tmp_path: Path) -> None:
    scores: Scores = {"gpt_fluency": {r: 5.0 for r in range(1, 9)}, "f1_score": {r: r / 10 for r in range(1, 9)}}
    uid = fill(tmp_path / "s.sqlite", scores, 8)
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}/scatter?x=gpt_fluency&y=f1_score"))
    assert "Pearson, a straight line · no interval: all scores of the first are equal" in shown


def test_scores_beyond_their_scale_are_in_one_cell(tmp_path: Path) -> None:
    draw = random.Random(4)
    values = [draw.choice([draw.random(), 1.0, 1.5 + draw.random() / 2, 2.0]) for _ in range(900)]
    scores: Scores = {
        "f1_score": dict(enumerate(values, 1)),
        "words": {row: draw.uniform(0, 50) for row in range(1, 901)},
    }
    uid = fill(tmp_path / "s.sqlite", scores, 900)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/scatter?x=f1_score&y=words")
    check_cells(links(found.text, r'<svg class="chart plot".*?</svg>'), scores, "f1_score", "words")


@pytest.fixture
def site(tmp_path: Path) -> tuple[TestClient, str]:
    return client(tmp_path / "s.sqlite"), fill(tmp_path / "s.sqlite", draw_scores(1, 40), 40)


@pytest.mark.parametrize(
    ("query", "says"),
    [("x=nothing", "x must be an evaluator of the run but is 'nothing'"),
     ("x=words&y=words", "x and y must be two metrics but both are 'words'")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told(site: tuple[TestClient, str], query: str, says: str) -> None:
    found = site[0].get(f"/runs/{site[1]}/scatter?{query}")
    assert found.status_code == 400 and says in html.unescape(text_of(found))


def test_without_choice_the_first_two_and_links_from_the_run(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    assert "gpt_fluency and gpt_coherence" in text_of(browser.get(f"/runs/{uid}/scatter"))
    assert "words and gpt_fluency" in text_of(browser.get(f"/runs/{uid}/scatter?x=words"))
    shown = browser.get(f"/runs/{uid}").text
    assert f'href="/runs/{uid}/scatter"' in shown and f'href="/trend?metric=gpt_fluency&amp;run={uid}"' in shown


def test_one_metric_or_none_has_a_page(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        bare = store.create_run("bare", {"version": 1})
        one = store.create_run("one", {"version": 1, "evaluators": INFOS[:1]})
    browser = client(tmp_path / "s.sqlite")
    assert "no metric" in text_of(browser.get(f"/runs/{bare.id}/scatter"))
    assert "one metric" in text_of(browser.get(f"/runs/{one.id}/scatter"))
    assert browser.get("/runs/none/scatter").status_code == 404


def test_no_common_row(tmp_path: Path) -> None:
    uid = fill(tmp_path / "s.sqlite", {"f1_score": {1: 0.5}, "words": {2: 3.0}}, 3)
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}/scatter?x=f1_score&y=words"))
    assert "No row has a score of both" in shown and "1 row without f1_score, 1 row without words" in shown
    assert not math.isnan(len(shown)) and "nan" not in shown
