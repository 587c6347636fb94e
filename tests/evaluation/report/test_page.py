"""report.html of runs written by hand: numbers, words, order, and what a hostile run cannot do."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hand_made_runs import evaluator_config, make_rows, make_run, make_scores
from tests.html_pages import Page
from valor_gpu.errors import InputTypeError
from valor_gpu.evaluation.report import bounds, write_report
from valor_gpu.evaluation.report.page import report_page
from valor_gpu.store import Run, Store, StoredRow, StoredScore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def usual(store: Store) -> Run:
    """Six rows with a judged metric, a severity, a text metric and failures."""
    rows = [*make_rows(6, topic=list("aabbbb")), StoredRow(7, "k7", {"question": "q7"}, {}, "timeout", "after 60 s")]
    scores = [
        *make_scores("gpt_fluency", [5, 4, 5, 1, "parse_error", 5]),
        *make_scores("violence", [0, 1, 0, 6, 0, 3]),
        *make_scores("f1_score", [0.5, 0.75, 1, 0, 0.25, 0.5]),
    ]
    return make_run(
        store,
        ["gpt_fluency", "violence", "f1_score"],
        rows,
        scores,
        thresholds={"gpt_fluency": 4},
        slice_by=["topic"],
        notes=["gpt_similarity is left out: the data have no ground_truth"],
    )


def test_every_number_stands_with_its_n_its_interval_and_its_failures(store: Store) -> None:
    page = Page(report_page(usual(store)))
    for words in (
        "4.00 of 5 95% interval",
        "5 scored 1 parse error",
        "80.0% pass, 95% interval 37.6 to 96.4%: 4 of 5 rows ≥ 4",
        "16.7% defects, 1 of 6 rows 95% interval 3.0 to 56.4%",
        "defect from Medium; mean severity 1.67",
        "0.500 of 1",
        "1 of 18 scores failed. 1 parse error. They are in no average.",
        "gpt_similarity is left out: the data have no ground_truth",
        "Rows 7, 1 timeout",
    ):
        assert words in page.text, words


def test_charts_say_their_numbers_in_words(store: Store) -> None:
    labels = [chart["aria-label"] for chart in Page(report_page(usual(store))).of("svg") if "aria-label" in chart]
    assert labels[0].startswith("gpt_fluency: mean 4.00, 95% interval ")
    assert labels[0].endswith("; 1 of 1, 0 of 2, 0 of 3, 1 of 4, 3 of 5")
    assert labels[1] == "violence: 4 of Very low, 1 of Low, 0 of Medium, 1 of High; 1 of 6 rows are defects"
    assert "counts of 20 bins from 0 to 1: 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 1" in labels[2]


def test_rows_are_worst_first_and_those_without_scores_are_there(store: Store) -> None:
    found = Page(report_page(usual(store)))
    numbers = [int(row["id"].removeprefix("row-")) for row in found.of("tr") if row.get("id", "").startswith("row-")]
    assert numbers == [4, 5, 6, 2, 1, 3, 7]
    assert "7 of 7." in found.text and "timeout after 60 s" in found.text
    assert "gpt_fluency 1 fails because 4" in found.text and "violence High 6 defect because 4" in found.text


def test_failures_and_slices(store: Store) -> None:
    found = Page(report_page(usual(store)))
    assert "1 rows without an answer timeout after 60 s 7" in found.text
    assert "1 gpt_fluency parse error why 5 5" in found.text
    assert {"href": "#row-5"} in found.of("a")
    assert re.search(r"By topic.*topic Rows gpt_fluency violence f1_score a 2 4\.50", found.text)


def test_every_table_has_headings_and_every_place_that_scrolls_a_name(store: Store) -> None:
    found = Page(report_page(usual(store)))
    assert all(heading.get("scope") for heading in found.of("th"))
    assert all(
        each["aria-label"] and each["tabindex"] == "0" for each in found.of("div") if each.get("role") == "region"
    )
    assert all("aria-label" in each or each.get("aria-hidden") == "true" for each in found.of("svg"))
    assert found.of("html") == [{"lang": "en"}] and len(found.of("h1")) == 1
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in found.of("a")} <= {f"#{name}" for name in ids}


HOSTILE = (
    '</style></title></textarea><script>document.title="owned"</script><img src=x onerror=alert(1)>'
    '<a href="javascript:alert(1)">click</a><svg onload=alert(1)><iframe src="//evil.example">{{ 7 * 7 }}{% raw %}'
    "\u202egnp.exe\u2066\x00\x1b[31m\ud800 </bdi></td></table>"
)


def hostile(store: Store) -> Run:
    """Hostile text wherever data, target, judge or configuration can put it."""
    name = "custom" + HOSTILE
    config = evaluator_config(name, low=0.0, high=1.0)
    turns = [{"turn": HOSTILE, "score": None, "status": HOSTILE, "reason": HOSTILE}]
    rows = [
        StoredRow(1, "k" + HOSTILE, {"question": HOSTILE, HOSTILE: [HOSTILE]}, {"answer": HOSTILE}),
        StoredRow(2, "b", {"messages": [{"role": HOSTILE, "content": HOSTILE, "context": {"citations": HOSTILE}}]}),
        StoredRow(3, "c", {"question": HOSTILE}, {}, "failed" + HOSTILE, HOSTILE),
    ]
    details = {"turns": turns, "notes": [HOSTILE]}
    scores = [
        StoredScore(1, name, 0, 0.5, reason=HOSTILE, level=HOSTILE, details=details),
        StoredScore(2, name, 0, None, "bad" + HOSTILE, HOSTILE, details={"turns": "none", "notes": 3}),
    ]
    return make_run(
        store, [config], rows, scores, "run" + HOSTILE, slice_by=["question"], notes=[HOSTILE],
        target={"url": HOSTILE}, judge={"model": HOSTILE},
    )  # fmt: skip


def test_hostile_text_stays_text(store: Store, tmp_path: Path) -> None:
    path = write_report(hostile(store), tmp_path / "report.html")
    content = path.read_text("utf-8")
    found = Page(content)
    known = {
        "html", "head", "meta", "title", "style", "body", "a", "header", "span", "svg", "path", "circle", "nav", "main",
        "div", "p", "h1", "h2", "h3", "h4", "bdi", "b", "dl", "dt", "dd", "section", "figure", "rect", "line", "text",
        "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ol", "ul", "li", "pre", "footer",
    }  # fmt: skip
    assert {tag for tag, _ in found.elements} <= known
    attributes = {name for _, given in found.elements for name in given}
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset", "action")]
    assert all(link["href"].startswith("#") for link in found.of("a"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", content)
    assert "{{ 7 * 7 }}" in found.text and "[U+202E]gnp.exe[U+2066]␀␛[31m" in found.text


def test_the_page_asks_for_nothing_and_runs_nothing(store: Store) -> None:
    page = report_page(usual(store))
    found = Page(page)
    [policy] = [meta["content"] for meta in found.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    style = page.split("<style>")[1].split("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not found.of("link") and not found.of("script") and not re.search(r"https?:|url\(", page)


def test_long_texts_are_cut_with_a_sentence(store: Store) -> None:
    many = {f"column {i}": "x" for i in range(40)}
    messages = [{"role": "user", "content": "m" * 3000}] * 60
    rows = [
        StoredRow(1, "a", {"question": "<" * 1_000_000, **many}, {"answer": "&" * 1_000_000}),
        StoredRow(2, "b", {"messages": messages}),
    ]
    turns = [{"turn": i, "score": 3, "status": "ok", "reason": ""} for i in range(70)]
    scores = [
        StoredScore(1, "gpt_fluency", 0, 3.0, reason="\0" * 1_000_000),
        StoredScore(2, "gpt_fluency", 0, 3.0, details={"turns": turns}),
    ]
    page = report_page(make_run(store, ["gpt_fluency"], rows, scores))
    found = Page(page)
    assert len(page.encode()) < 400_000
    for words in (
        "998,000 more characters are left out here.",
        "18 more columns are left out here.",
        "1,000 more characters are left out here.",
        "10 more messages are left out here.",
        "20 more turns are left out here.",
    ):
        assert words in found.text, words
    assert found.text.count("998,000 more characters") == 3  # answer, question and reason


def test_runs_without_rows_or_scores_have_a_page(store: Store) -> None:
    draft = store.create_run("", {})
    found = Page(report_page(draft)).text
    assert "There is no row yet." in found and "There is no score yet." in found and "Draft, numbers so far" in found
    alone = make_run(store, ["gpt_fluency", "violence", "corpus_bleu", "preference"], make_rows(1), [], state="draft")
    assert "0 scored 1 not judged" in Page(report_page(alone)).text


@pytest.mark.parametrize(
    ("name", "values", "more"),
    [
        ("all", [-2.5, 7.0, 3.0], {"low": None, "high": None}),
        ("equal", [1e300, 1e300], {"low": 0.0, "high": None}),
        ("wide", [-1.7e308, 1.7e308], {"low": None, "high": None}),
        ("beyond", [-1.0, 5.0, 0.5], {}),
        ("tenths", [1.0, 10.0, 5.5], {"low": 1.0, "high": 10.0}),
        ("lower", [0.0, 1.0], {"higher_is_better": False}),
        ("none", [0.2, 0.3], {"higher_is_better": None}),
        ("tiny", [5e-324, 0.0], {"low": 0.0, "high": None}),
    ],
)
def test_any_scale_has_a_chart(store: Store, name: str, values: list[float], more: dict[str, object]) -> None:
    run = make_run(store, [evaluator_config(name, **more)], make_rows(len(values)), make_scores(name, values))
    page = report_page(run)
    found = Page(page)
    assert not re.search(r'="[^"]*\b(nan|inf)\b', page)
    assert [chart for chart in found.of("svg") if chart.get("aria-label", "").startswith(f"{name}: mean")]
    assert ("2 scores lie beyond the scale" in found.text) == (name == "beyond")


def test_repeats_are_averaged_in_the_table_and_listed_below(store: Store) -> None:
    scores = [*make_scores("gpt_fluency", [5, 1]), *make_scores("gpt_fluency", [4, 1], repeat=1)]
    found = Page(report_page(make_run(store, ["gpt_fluency"], make_rows(2), scores, repeats=2))).text
    assert "2 scored, 4 scores" in found and "judged 2 times: the judge deviates by" in found
    assert "gpt_fluency, repeat 1 5" in found and "gpt_fluency, repeat 2 4" in found and "q1 · 4.50" in found


def test_a_page_is_replaced_as_a_whole(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = usual(store)
    path = write_report(run, tmp_path / "new" / "report.html")
    old = path.read_bytes()
    monkeypatch.setattr("valor_gpu.evaluation.report.page.report_page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        write_report(run, path)
    assert path.read_bytes() == old and list(path.parent.iterdir()) == [path]
    with pytest.raises(InputTypeError, match="run must be Run but got str"):
        write_report("run", path)  # type: ignore[arg-type]


@pytest.mark.slow
def test_pages_of_many_rows_keep_to_the_bound(store: Store) -> None:
    """Texts and names as bad as they can be, in a run as large as one is: the page stays within its bound."""
    names = ["&" * 5000 + str(i) for i in range(120)]
    text = "'" * 4000
    run = make_run(store, [evaluator_config(name) for name in names], [], [], state="draft", slice_by=["question"])
    for first in range(1, 20_001, 10_000):
        rows = [
            StoredRow(
                n, f"k{n}", {"question": str(n % 60) + "'" * 200}, {"answer": text} if n < 400 else {"answer": ""}
            )
            for n in range(first, first + 10_000)
        ]
        run.add_rows(rows)
        run.add_scores(StoredScore(n, names[0], 0, n % 17 / 16) for n in range(first, first + 10_000))
    run.add_scores(StoredScore(n, name, 0, 0.0, reason=text) for name in names[1:] for n in range(1, 40))
    causes = {n: "".join(chr(ord("a") + int(digit)) for digit in str(n)) for n in range(50, 1000)}
    run.add_scores(StoredScore(n, names[1], 0, None, "s" * 900, f"{why} {text}") for n, why in causes.items())
    page = report_page(run)
    assert 2_000_000 < len(page.encode()) <= bounds.PAGE_BYTES
    found = Page(page).text
    assert re.search(r"\d+ of 20,000\. 19,\d{3} rows are left out here", found)
    assert "20 more evaluators are left out here." in found and "failures of rarer causes are left out here." in found


@pytest.mark.slow
def test_what_stands_around_the_rows_takes_from_their_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = "\U000e0001"  # shown as nine
    names = [sign * 200 + str(i) for i in range(110)]
    columns = [letter + sign * 200 for letter in "abcdefgh"]
    rows = [StoredRow(n, f"k{n}", {name: f"{n % 55}" + sign * 3000 for name in columns}) for n in range(1, 251)]
    scores = [StoredScore(n, name, 0, n / 250, reason=sign * 3000) for name in names for n in (1, 2, 3)]
    scores += [StoredScore(n, names[0], 0, None, f"s{n}" + sign * 300, f"{n}" + sign * 300) for n in range(4, 104)]
    config = {"notes": [sign * 5000] * 50, "slice_by": columns, "target": {"prompt": sign * 50_000}}
    evaluators = [evaluator_config(name) for name in names]
    baseline = make_run(store, evaluators, rows, [], name=sign * 500)
    run = make_run(store, evaluators, rows, scores, name=sign * 500, baseline=baseline.id, **config)
    monkeypatch.setattr(bounds, "PAGE_BYTES", 3_079_000)
    page = report_page(run)
    assert 2_910_000 < len(page.encode()) <= 3_079_000  # a seventh row, of 163 kB, would leave 2 kB of it
    assert page.count('id="row-') == 6
    assert "so that the page stays small" in Page(page).text


def two_runs(store: Store) -> tuple[Run, Run]:
    """A baseline and a run that is better by one metric and has a setting, a metric and a row of its own."""
    names = ["f1_score", "violence"]
    rows = make_rows(12)
    before = [*make_scores("f1_score", [i / 40 for i in range(12)]), *make_scores("violence", [0] * 12)]
    baseline = make_run(store, names, rows, before, "Prompt 6", target={"prompt": 6})
    after = [
        *make_scores("f1_score", [0.25 + i / 40 for i in range(12)]),
        *make_scores("violence", [0] * 11 + [5]),
        *make_scores("gpt_fluency", [5, 4]),
    ]
    more = {"target": {"prompt": 7}, "baseline": baseline.id}
    return make_run(store, [*names, "gpt_fluency"], [*rows, StoredRow(13, "new", {})], after, **more), baseline


def test_the_comparison_with_the_baseline_that_the_configuration_names(store: Store) -> None:
    run, baseline = two_runs(store)
    found = Page(report_page(run))
    for words in (
        f"Difference from Prompt 6 Run {baseline.id} . 12 shared rows, 12 differ; 1 only in this run, 0 only in the",
        "mean_f1_score 0.138 0.388 +0.250 +0.250 to +0.250",
        "better 12: 12 higher, 0 equal, 0 lower",
        "not shown 12: 1 higher, 11 equal, 0 lower",
        "pass 100.0% to 91.7%: 1 row broken, 0 fixed",
        "only in this run: gpt_fluency",
        "target.prompt 6 7",
        "more severe than in the baseline by any severity: 8.3%: 1 of 12 rows, 95% interval",
        "12 q12 f1_score 0.275 → 0.525 +0.250 , violence 0.00 → 5.00 +5.00",
    ):
        assert words in found.text, words
    labels = [chart["aria-label"] for chart in found.of("svg") if "aria-label" in chart]
    assert "mean_f1_score: difference +0.250, 95% interval +0.250 to +0.250, better" in labels
    assert Page(report_page(run, baseline)).text == found.text


def test_a_baseline_that_is_gone_or_shares_no_row_is_a_sentence(store: Store) -> None:
    other = make_run(store, ["f1_score"], [StoredRow(1, "else", {})], [StoredScore(1, "f1_score", 0, 1.0)])
    run = make_run(store, ["f1_score"], make_rows(2), make_scores("f1_score", [1, 0]), baseline="0" * 12)
    found = Page(report_page(run)).text
    assert "The run is not compared with its baseline. no run with the id or name '000000000000'" in found
    assert "The run is not compared with its baseline." in Page(report_page(run, other)).text
    assert "not compared" not in Page(report_page(usual(store))).text
