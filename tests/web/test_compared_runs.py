"""Comparisons of several runs: one table, rows by what changed, warnings once, work in the background."""

from __future__ import annotations

import csv
import io
import random
import re
import threading
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from valor_gpu.evaluation import compare_group
from valor_gpu.evaluation.results.comparison_files import group_markdown
from valor_gpu.pages.numbers import MINUS, difference, number, p_value
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.edits import edit_run
from valor_gpu.web import errands
from valor_gpu.web.comparison import background as compared

INFOS = [
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "gpt_similarity", "kind": "quality", "low": 1, "high": 5, "higher_is_better": True, "needs_judge": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False, "needs_judge": True},
]
ROWS = 60


def add(store: Store, name: str, shift: float, judge: str = "a", infos: Any = None, **more: Any) -> str:
    draw = random.Random(name)
    infos = INFOS if infos is None else infos
    config = {"version": 1, "evaluators": infos, "data": {"hash": "h"}, "judge": {"model": judge}, **more}
    run = store.create_run(name, config)
    run.add_rows(
        [
            StoredRow(n, f"k{n}", {"question": f"q{n}", "document": f"d{n // 10}"}, {"answer": f"{name} says {n}"})
            for n in range(1, ROWS + 1)
        ]
    )
    for n in range(1, ROWS + 1):
        run.add_scores([StoredScore(n, "f1_score", 0, min(1.0, n / 100 + shift * (0.5 + draw.random())))])
        run.add_scores([StoredScore(n, "gpt_similarity", 0, float(draw.randint(1, 5)))])
        if len(infos) == 3:
            run.add_scores([StoredScore(n, "violence", 0, float(draw.choice([0, 0, 2, 6])))])
    with run.lease():
        run.finish("finished", {})
    return run.id


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    with Store(tmp_path / "s.sqlite") as store:
        names = (("first", 0.0, "a"), ("second", 0.1, "a"), ("third", 0.3, "b"), ("fourth", -0.005, "b"))
        return [add(store, *each) for each in names]


def shown(tmp_path: Path, ids: list[str], query: str = "") -> Any:
    return client(tmp_path / "s.sqlite").get(f"/compare?runs={','.join(ids)}{query}")


def rows_of(found: Any) -> list[int]:
    return [int(row) for row in re.findall(r'<tr id="r(\d+)" data-row', found.text)]


def test_the_table_has_the_numbers_of_compare_group(tmp_path: Path, ids: list[str]) -> None:
    found = shown(tmp_path, ids, "&all=1")
    table = re.search(r'<table class="runs">.*?</table>', found.text, re.DOTALL)
    assert table is not None
    words = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", table[0])))
    with Store(tmp_path / "s.sqlite") as store:
        group = compare_group([store.run(uid) for uid in ids])
    places = [words.index(info["name"]) for info in INFOS] + [len(words)]
    for info, start, end in zip(INFOS, places, places[1:]):
        line = words[start:end]
        for each in group:
            metric = each.metrics[str(info["name"])]
            decimals = 3 if info["name"] == "f1_score" else 2
            assert number(metric.run, decimals) in line
            assert f"{difference(metric.difference, decimals)} {metric.verdict}" in line
            low, high = metric.interval or (None, None)
            between = f"{difference(low, decimals)} to {difference(high, decimals)}"
            assert f"{between}, p {p_value(metric.p_adjusted)}" in line
    assert "p adjusted by Holm over all metrics of all runs" in text_of(found)


def test_best_is_said_where_the_data_show_it(tmp_path: Path, ids: list[str]) -> None:
    page = shown(tmp_path, ids).text
    marks = re.findall(r'<td class="n">([^<]*) <span class="chip best"', page)
    with Store(tmp_path / "s.sqlite") as store:
        third = compare_group([store.run(uid) for uid in ids])[1]
    assert marks == [number(third.metrics["f1_score"].run, 3)], "of f1_score alone, at the third run"
    assert "chip best" not in shown(tmp_path, ids[:2]).text, "of two runs the reading says it"


def test_one_text_of_warning_for_all_metrics_and_runs(tmp_path: Path, ids: list[str]) -> None:
    found = shown(tmp_path, ids)
    words = text_of(found)
    assert found.text.count("note warn") == 1
    assert "C, D (gpt_similarity, violence): scores are not comparable: the judges differ." in words
    assert words.count("not comparable scores are not comparable") == 0
    with Store(tmp_path / "s.sqlite") as store:
        other = add(store, "other data", 0.0, data={"hash": "x"})
    words = text_of(shown(tmp_path, [*ids[:2], other]))
    assert "C: the data differ: only rows of the same key are compared" in words
    assert "ask something else" not in words, "other data, the same questions"


def test_jailbreaks_are_shown_when_they_are_asked_for(tmp_path: Path, ids: list[str]) -> None:
    assert "Jailbreak defect rate" not in text_of(shown(tmp_path, ids))
    words = text_of(shown(tmp_path, ids, "&jailbreak=1"))
    with Store(tmp_path / "s.sqlite") as store:
        group = compare_group([store.run(uid) for uid in ids])
        tested = add(store, "jailbreaks", 0.0, baseline=ids[0])
        plain = add(store, "no severities", 0.0, infos=INFOS[:2])
    for letter, each in zip("BCD", group):
        assert each.jailbreak is not None
        rate = f"{letter} against A {100 * each.jailbreak.rate:.1f}% {each.jailbreak.successes} of {ROWS} rows"
        assert rate in words
    assert words.count("not comparable: violence") == 2, "of C and D, which another judge rated"
    words = text_of(shown(tmp_path, [*ids[:2], tested]))
    assert "C against A" in words and "B against A" not in words and "are left out: show all" in words
    assert "jailbreak" not in text_of(shown(tmp_path, [ids[0], plain])).lower()


def test_worse_only_comes_by_the_worst_change(tmp_path: Path, ids: list[str]) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        runs = [store.run(uid) for uid in ids[:2]]
        values = [{(each.row, each.evaluator): each.value or 0.0 for each in run.scores()} for run in runs]
    worse = {}
    for n in range(1, ROWS + 1):
        changes = {
            str(info["name"]): (values[1][n, str(info["name"])] - values[0][n, str(info["name"])])
            / (float(str(info["high"])) - float(str(info["low"])))
            * (-1 if info["higher_is_better"] else 1)
            for info in INFOS
        }
        name = max(changes, key=lambda each: changes[each])
        if changes[name] > 0:
            worse[n] = (changes[name], name)
    found = shown(tmp_path, ids[:2], "&kind=worse")
    assert f"Rows 1 to 25 of {len(worse)}" in text_of(found)
    listed = rows_of(found) + rows_of(shown(tmp_path, ids[:2], "&kind=worse&at=25"))
    assert listed == sorted(worse, key=lambda n: (-worse[n][0], n))[:50]
    chips = re.findall(r'<span class="chip leads">(\S+) <b>[^<]*</b> <span class="bad">worse</span>', found.text)
    assert chips == [worse[n][1] for n in rows_of(found)], "the chip names the change that ordered the row"
    by_metric = shown(tmp_path, ids[:2], "&kind=worse&metric=violence")
    assert set(re.findall(r'chip leads">(\S+)', by_metric.text)) == {"violence"}
    assert "No row got better." in text_of(shown(tmp_path, [ids[0], ids[0], ids[3]], "&kind=better&metric=f1_score"))


def test_the_run_that_ordered_a_row_is_marked(tmp_path: Path, ids: list[str]) -> None:
    found = shown(tmp_path, ids, "&metric=f1_score")
    for row in re.findall(r'<tr id="r\d+" data-row.*?</tr>', found.text, re.DOTALL):
        sizes = [abs(float(text.replace(MINUS, "-"))) for text in re.findall(r"<b>([^<]+)</b>", row)]
        leads = ["leads" in cell for cell in re.findall(r'<span class="chip[^"]*"', row)]
        assert leads == [size == max(sizes) and not any(sizes[k] == size for k in range(i))
                         for i, size in enumerate(sizes)]  # fmt: skip
    one = shown(tmp_path, ids, "&metric=f1_score&in=D")
    assert all('class="chip leads"' in row.rpartition("<td")[2] for row in
               re.findall(r'<tr id="r\d+" data-row.*?</tr>', one.text, re.DOTALL))  # fmt: skip


def test_words_pages_and_the_order_by_number(tmp_path: Path, ids: list[str]) -> None:
    assert rows_of(shown(tmp_path, ids[:2], "&q=second+says+7")) == [7]
    assert rows_of(shown(tmp_path, ids[:2], "&q=third+says+7")) == []
    assert rows_of(shown(tmp_path, ids[:3], "&q=third+says+7")) == [7]
    pages = [rows_of(shown(tmp_path, ids[:2], f"&sort=number&kind=all&at={at}")) for at in (0, 25, 50, 9999)]
    assert pages == [[*range(1, 26)], [*range(26, 51)], [*range(51, 61)], [*range(51, 61)]]
    middle = shown(tmp_path, ids[:2], "&at=25").text
    assert [words for words in ("First", "Previous", "Next", "Last") if f">{words}</a>" in middle] == [
        "First", "Previous", "Next", "Last"]  # fmt: skip


def test_clusters_are_a_column_of_the_data(tmp_path: Path, ids: list[str]) -> None:
    words = text_of(shown(tmp_path, ids[:2], "&cluster=document"))
    with Store(tmp_path / "s.sqlite") as store:
        found = compare_group([store.run(ids[1])], store.run(ids[0]), cluster_column="document")[0]
    metric = found.metrics["gpt_similarity"]
    assert metric.interval is not None and "Rows of one document are drawn, and swapped, as a whole." in words
    assert f"{difference(metric.interval[0])} to {difference(metric.interval[1])}" in words
    wrong = shown(tmp_path, ids[:2], "&cluster=nothing")
    assert "Rows cannot be grouped like this. cluster_column must be a column" in text_of(wrong)
    assert "Treat each row on its own" in text_of(wrong)


def test_files_of_a_comparison(tmp_path: Path, ids: list[str]) -> None:
    site, at = client(tmp_path / "s.sqlite"), f"runs={','.join(ids[:3])}"
    with Store(tmp_path / "s.sqlite") as store:
        text = group_markdown(compare_group([store.run(uid) for uid in ids[:3]]))
    page = site.get(f"/compare?{at}").text
    shown = re.search(r'<pre[^>]*id="markdown"[^>]*>\n?(.*?)</pre>', page, re.DOTALL)
    assert shown is not None and unescape(shown[1]).strip() == text.strip()
    file = site.get(f"/compare/comparison.md?{at}")
    assert file.text == text and "attachment" in file.headers["content-disposition"]
    assert f'href="/compare/comparison.md?{at.replace(",", "%2C")}"' in page
    lines = list(csv.reader(io.StringIO(site.get(f"/compare/comparison.csv?{at}").text)))
    assert len(lines) == ROWS + 1 and lines[0][:3] == ["\ufeffkey", "A.row", "A.f1_score"]
    assert site.get(f"/compare/comparison.md?runs={ids[0]}").status_code == 400


def test_a_run_that_was_renamed_has_its_new_name_in_files(tmp_path: Path, ids: list[str]) -> None:
    site, at = client(tmp_path / "s.sqlite"), f"runs={','.join(ids[:2])}"
    assert site.get(f"/compare/comparison.md?{at}").text.startswith("### second and first")
    with Store(tmp_path / "s.sqlite") as store:
        edit_run(store.run(ids[0]), name="earlier")
        edit_run(store.run(ids[1]), name="later")
    assert site.get(f"/compare/comparison.md?{at}").text.startswith("### later and earlier")


def test_a_page_does_not_wait_for_the_tests(tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    go, joined = threading.Event(), compared.with_tests

    def slow(pair: Any) -> Any:
        assert go.wait(120)
        return joined(pair)

    monkeypatch.setattr(compared, "with_tests", slow)
    monkeypatch.setattr(errands, "PATIENCE", 0.5)
    site, at = client(tmp_path / "s.sqlite"), f"/compare?runs={','.join(ids[:2])}"
    found = site.get(at)
    for _ in range(100):
        if "Differences from A" in (found := site.get(at)).text:
            break
    words = text_of(found)
    assert "being tested: intervals and p-values are still to come" in words and 'data-poll="3"' in found.text
    assert re.search(r"f1_score 0\.\d+ 0\.\d+ \+0\.\d+ · · · being tested 60", words) and "better 60" not in words
    assert len(rows_of(found)) == 25 and "Markdown for a pull request" not in words
    assert "data-poll" not in site.get(f"{at}&still=1").text
    away = site.get(f"/compare/comparison.md?runs={','.join(ids[:2])}", follow_redirects=False)
    assert away.status_code == 303 and away.headers["location"].startswith("/compare?runs=")
    assert site.get("/runs").status_code == 200, "other pages do not wait"
    go.set()
    for _ in range(200):
        if "data-poll" not in (found := site.get(at)).text:
            break
        threading.Event().wait(0.05)
    assert re.search(r"f1_score .*? better 60", text_of(found)) and "Markdown for a pull request" in found.text


def test_a_comparison_is_made_once(tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    join = compared.joined_pair
    monkeypatch.setattr(compared, "joined_pair", lambda run, *more: (made.append(run.id), join(run, *more))[1])
    site = client(tmp_path / "s.sqlite")
    for query in ("", "&kind=worse", "&open=3", "&metric=violence", "&at=25"):
        assert site.get(f"/compare?runs={','.join(ids[:3])}{query}").status_code == 200
    assert made == ids[1:3]
    site.get(f"/compare?runs={','.join(ids[:3])}&baseline={ids[1]}")
    assert made == [*ids[1:3], ids[0], ids[2]]


def test_an_error_of_the_work_is_one_of_the_server_and_is_tried_again(
    tmp_path: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a fault")

    site, at = client(tmp_path / "s.sqlite"), f"/compare?runs={','.join(ids[:2])}"
    with monkeypatch.context() as patch:
        patch.setattr(compared, "joined_pair", broken)
        assert site.get(at).status_code == 500
    assert site.get(at).status_code == 200


def test_questions_that_differ_are_shown(tmp_path: Path, ids: list[str]) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("asked otherwise", {"version": 1, "evaluators": INFOS, "data": {"hash": "x"}})
        run.add_rows([StoredRow(1, "k1", {"question": "q1 in summer"}, {"answer": "first says 1"})])
        run.add_scores([StoredScore(1, "f1_score", 0, 0.9)])
        with run.lease():
            run.finish("finished", {})
    found = shown(tmp_path, [ids[0], run.id], "&open=1")
    assert "Question of B differs" in text_of(found) and "q1<ins> in summer</ins>" in found.text
    assert "B: 1 of 1 joined rows ask something else." in text_of(found)
    assert "the same text as A" in text_of(found) and "B: 1 row joined by key" in text_of(found)


def test_six_runs_of_fifty_metrics(tmp_path: Path) -> None:
    infos = [{**INFOS[0], "name": f"metric_{n:02}"} for n in range(50)]
    draw = random.Random(0)
    with Store(tmp_path / "s.sqlite") as store:
        runs = []
        for name in "abcdef":
            run = store.create_run(name, {"version": 1, "evaluators": infos, "data": {"hash": "h"}})
            run.add_rows([StoredRow(n, f"k{n}", {"question": f"q{n}"}, {"answer": "x"}) for n in range(1, 9)])
            run.add_scores([StoredScore(n, str(info["name"]), 0, draw.random()) for n in range(1, 9) for info in infos])
            with run.lease():
                run.finish("finished", {})
            runs.append(run.id)
    found = shown(tmp_path, runs, "&open=1")
    table = re.search(r'<table class="runs">.*?</table>', found.text, re.DOTALL)
    assert table is not None and table[0].count("<tr>") == 51 and table[0].count("</td>") == 50 * 11
    assert found.text.count("page of this row in") == 6
