"""What people say of rows: their agreement with evaluators, and their words in the exports."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score  # type: ignore[import-untyped,unused-ignore]

from valor_gpu.evaluation.report import write_report
from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
from valor_gpu.evaluation.results.people import people_agreement
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Feedback, Run, Store, StoredRow, StoredScore

OWN = [1, 2, 3, 4, 5, 5, 4, 2]
SAID = [1, 3, 3, 4, 4, 5, 2, 2]
SEVERITIES = [0.0, 2.0, 4.0, 6.0] * 2
EVALUATORS = [
    {"name": "gpt_fluency", "kind": "quality", "low": 1, "high": 5, "higher_is_better": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False},
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Eight rows; the judge failed on row 9, of which somebody spoke too."""
    config = {"version": 1, "evaluators": EVALUATORS, "thresholds": {"gpt_fluency": 4}}
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("books", config)
        run.add_rows([StoredRow(n, f"k{n}", {"question": f"q{n}", "answer": "yes"}) for n in range(1, 10)])
        run.add_scores([StoredScore(n, "gpt_fluency", 0, float(value)) for n, value in enumerate(OWN, 1)])
        run.add_scores([StoredScore(9, "gpt_fluency", 0, None, "parse_error", "no rating")])
        run.add_scores([StoredScore(n, "violence", 0, value) for n, value in enumerate(SEVERITIES, 1)])
        for n, value in enumerate([*SAID, 3], 1):
            run.add_feedback(Feedback(n, "gpt_fluency", "ana", value, passed=value >= 4, note="=1+1" if n == 1 else ""))
        run.add_feedback(Feedback(2, "", "ben", note="<i>odd</i>"))
        run.add_feedback(Feedback(3, "violence", "ben", passed=False))
        run.add_feedback(Feedback(1, "violence", "ben", passed=True))
        run.finish("finished", {})
        yield run


def test_numbers_are_those_of_scikit_learn(run: Run) -> None:
    found = people_agreement(run, run_summary(run)["evaluators"])
    fluency = found["gpt_fluency"]
    assert fluency.scores is not None and fluency.verdicts is not None
    peer = cohen_kappa_score(OWN, SAID, labels=range(1, 6), weights="quadratic")
    assert fluency.scores.kappa == pytest.approx(peer, abs=1e-12)
    verdicts = cohen_kappa_score([value >= 4 for value in OWN], [value >= 4 for value in SAID])
    assert fluency.verdicts.kappa == pytest.approx(verdicts, abs=1e-12)
    assert (fluency.scores.n, fluency.scores.n_missing, fluency.n_people) == (8, 1, 1)


def test_a_verdict_on_a_severity_is_about_the_defect(run: Run) -> None:
    found = people_agreement(run, run_summary(run)["evaluators"])["violence"]
    assert found.scores is None and found.verdicts is not None
    assert found.verdicts.kappa == 1.0 and math.isnan(found.verdicts.low)
    other = run_summary(run, thresholds={"violence": "Very low"})["evaluators"]
    changed = people_agreement(run, other)["violence"].verdicts
    assert changed is not None and changed.kappa == 0.0
    assert people_agreement(run, {})["violence"].verdicts is None
    assert "f1_score" not in people_agreement(run, other)


def test_repeats_count_by_their_mean(run: Run) -> None:
    run.add_scores([StoredScore(2, "gpt_fluency", 1, 4.0)])
    found = people_agreement(run, {})["gpt_fluency"].scores
    assert found is not None and found.n_equal == 6  # five, and row 2 is now 3, as ana says


def test_exports_have_what_people_say(run: Run, tmp_path: Path) -> None:
    export_jsonl(run, tmp_path / "rows.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [each["author"] for each in lines[1]["feedback"]] == ["ben", "ana"]
    assert lines[2]["feedback"][1]["passed"] is False and "feedback" in lines[8]
    export_csv(run, tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["feedback.gpt_fluency.ana"] == "1.0" and rows[0]["feedback.gpt_fluency.ana.note"] == "'=1+1"
    assert rows[2]["feedback.violence.ben.passed"] == "false" and rows[3]["feedback.violence.ben.passed"] == ""
    assert rows[1]["feedback..ben.note"] == "<i>odd</i>"


def test_the_page_has_them_too(run: Run, tmp_path: Path) -> None:
    write_report(run, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "agreement with scores of one person: weighted kappa" in text and "n = 8, 1 more of rows without" in text
    assert "&lt;i&gt;odd" in text and "<i>odd" not in text


def test_rows_of_which_people_spoke_are_on_a_page_that_leaves_rows_out(run: Run, tmp_path: Path) -> None:
    run.add_rows([StoredRow(n, f"k{n}", {"question": f"q{n}", "answer": "yes"}) for n in range(10, 402)])
    run.add_scores([StoredScore(n, "gpt_fluency", 0, 1.0 if n < 300 else 5.0) for n in range(10, 402)])
    run.add_feedback(Feedback(400, "gpt_fluency", "ana", 1, note="the very last word"))
    write_report(run, tmp_path / "page.html")
    assert "the very last word" in (tmp_path / "page.html").read_text()


def test_a_run_without_feedback_says_nothing_of_it(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("quiet", {"version": 1, "evaluators": EVALUATORS})
        run.add_rows([StoredRow(1, "a", {"answer": "x"})])
        run.finish("finished", {})
        assert people_agreement(run, {}) == {}
        export_jsonl(run, tmp_path / "rows.jsonl")
        export_csv(run, tmp_path / "rows.csv")
        assert "feedback" not in (tmp_path / "rows.jsonl").read_text() + (tmp_path / "rows.csv").read_text()
