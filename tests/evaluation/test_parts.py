"""Evaluators of the user's own that return several numbers: metrics of their own, in all that reads a run."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from valor_gpu import evaluate
from valor_gpu.cli import main
from valor_gpu.errors import InputError
from valor_gpu.evaluation import rescore_run, resume_run
from valor_gpu.evaluation.engine.parts import Parts
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
from valor_gpu.evaluation.results.gates import failing_gates
from valor_gpu.store import Store, StoredScore

ROWS = [{"question": "q", "answer": "two words"}, {"question": "q", "answer": "these are four words"}]
BOTH = {"mean_mine.signs": 14.5, "mean_mine.words": 3.0}


class Counts:
    """Words and signs, as a class of Azure's page."""

    def __call__(self, *, response: str, **kwargs: Any) -> dict[str, Any]:
        return {"words": len(response.split()), "signs": len(response), "words_reason": "counted"}


async def later(answer: str) -> dict[str, Any]:
    return {"words": len(answer.split()), "signs": len(answer)}


def uneven(answer: str) -> Any:
    """Another shape for each row, by its words: both numbers, one of them, the other, an error, a number."""
    words = len(answer.split())
    shapes: list[Any] = [{"words": words, "signs": len(answer)}, {"words": words}, {"signs": len(answer)}]
    if words == 4:
        raise ValueError("four")
    return shapes[words - 1]


def run(tmp_path: Path, evaluators: Any, rows: Any = ROWS, **more: Any) -> Any:
    return evaluate(data=rows, evaluators=evaluators, metrics_list=[], store=str(tmp_path / "s.sqlite"), **more)


@pytest.mark.parametrize("given", [Counts(), Counts, later])
def test_several_numbers_are_metrics_of_their_own(tmp_path: Path, given: Any) -> None:
    found = run(tmp_path, {"mine": given})
    assert found.metrics_summary == BOTH and len(found.errors) == 0
    first = next(found.rows)
    assert (first["mine.words"], first["mine.signs"]) == (2.0, 9.0) and "mine" not in first
    assert "mine.words" in str(found) and "mean_mine " not in str(found)
    assert found.summary["evaluators"]["mine.words"]["n"] == 2
    assert found.summary["evaluators"]["mine.words"]["n_not_judged"] == 0


def test_one_number_is_the_value_whatever_its_key(tmp_path: Path) -> None:
    found = run(tmp_path, {"mine": lambda answer: {"words": len(answer.split()), "words_reason": "counted"}})
    assert found.metrics_summary == {"mean_mine": 3.0}
    first = next(found.rows)
    assert (first["mine"], first["mine_reason"], first["mine_details"]) == (2.0, "counted", {"words": 2.0})


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (2, 3, 4, 1), (4, 3, 2, 1), (2, 1, 3, 4)])
def test_rows_that_differ_in_keys_have_each_their_own(tmp_path: Path, order: tuple[int, ...]) -> None:
    rows = [{"id": str(n), "answer": " ".join(["x"] * n)} for n in order]
    found = run(tmp_path, {"mine": uneven}, rows)
    assert found.metrics_summary == {"mean_mine.signs": 3.0, "mean_mine.words": 1.5}
    by_key = {row["_key"]: row for row in found.rows}
    assert by_key["2"]["mine.words"] == 2 and by_key["2"]["mine.signs"] is None
    assert by_key["2"]["mine.signs_reason"] == "the evaluator returned no number 'signs' for this row"
    assert by_key["4"]["mine.words_status"] == "evaluator_error"
    assert found.summary["evaluators"]["mine.words"]["n_failed"] == {"evaluator_error": 1, "undefined": 1}
    assert all("mine" not in row for row in by_key.values())


def test_rows_with_one_number_each_under_different_keys_are_never_one_mean(tmp_path: Path) -> None:
    def either(answer: str) -> dict[str, float | None]:
        return {"words": 2, "signs": None} if answer == "two words" else {"signs": 20, "words": None}

    assert run(tmp_path, {"mine": either}).metrics_summary == {"mean_mine.signs": 20.0, "mean_mine.words": 2.0}


def test_a_score_beside_numbers_that_differ_in_name_stays_the_value(tmp_path: Path) -> None:
    def graded(answer: str) -> dict[str, float]:
        return {"score": 1, "missing": 1} if answer == "two words" else {"score": 0.5, "extra": 2}

    assert run(tmp_path, {"mine": graded}).metrics_summary == {"mean_mine": 0.75}


def test_one_key_here_and_another_there_are_two_metrics_after_a_resume(tmp_path: Path) -> None:
    rows = [{"id": str(n), "answer": " ".join(["x"] * n)} for n in (1, 2, 3)]
    first = run(tmp_path, {"mine": uneven}, rows, limit=3)
    with Store(tmp_path / "s.sqlite") as store:
        again = resume_run(store, first.run_id, data=rows, evaluators={"mine": uneven})
        assert again.metrics_summary == first.metrics_summary
        assert len(list(again.run.scores())) == len(list(first.run.scores())) == 6


def test_a_run_that_was_killed_before_its_scores_were_settled_is_settled_when_it_goes_on(tmp_path: Path) -> None:
    rows = [{"id": str(n), "answer": " ".join(["x"] * n)} for n in (2, 1)]
    found = run(tmp_path, {"mine": uneven}, rows)
    with Store(tmp_path / "s.sqlite") as store:
        kept = store.run(found.run_id)
        with kept._write() as connection:
            connection.execute("DELETE FROM scores WHERE row = 1")
        kept.add_scores([StoredScore(1, "mine", 0, 2.0, details={"words": 2.0})])
        again = resume_run(store, found.run_id, data=rows, evaluators={"mine": uneven})
        assert again.metrics_summary == found.metrics_summary
        assert {each.evaluator for each in again.run.scores()} == {"mine.words", "mine.signs"}


def test_value_and_score_keep_their_meaning(tmp_path: Path) -> None:
    found = run(tmp_path, {"mine": lambda answer: {"score": 1, "words": 2, "signs": 3}})
    assert found.metrics_summary == {"mean_mine": 1.0}
    assert next(found.rows)["mine_details"] == {"words": 2, "signs": 3}


def test_thresholds_and_gates_of_numbers(tmp_path: Path) -> None:
    found = run(tmp_path, {"mine": Counts}, thresholds={"mine.words": 3})
    assert found.metrics_summary == {**BOTH, "mine.words_pass_rate": 0.5, "pass_rate": 0.5}
    gates = ["mean_mine.words >= 3", "mine.words.n == 2", "mean_mine.signs < 10"]
    assert [str(each.gate) for each in failing_gates(found.summary, gates)] == ["mean_mine.signs < 10"]
    assert found.with_thresholds({"mine.signs": 10}).metrics_summary["mine.signs_pass_rate"] == 0.5
    with pytest.raises(
        InputError, match=r"thresholds must name evaluators of the run but 'mine.sign' is none; did you"
    ):
        found.with_thresholds({"mine.sign": 10}).metrics_summary  # noqa: B018
    with pytest.warns(UserWarning, match="has a score of mine and mine.lines"):
        lacking = run(tmp_path, {"mine": Counts}, thresholds={"mine.lines": 3, "mine": 1})
    assert lacking.summary["passed"]["n_undecided"] == 2 and lacking.metrics_summary["pass_rate"] != 0.5
    assert lacking.summary["evaluators"]["mine.lines"]["n"] == 0
    with pytest.raises(InputError, match=r"thresholds must name evaluators of the run but 'other\.words' is none"):
        run(tmp_path, {"mine": Counts}, thresholds={"other.words": 3})


def test_a_number_must_not_have_the_name_of_another_evaluator(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="has a score of mine; 2 evaluator_error"):
        found = run(tmp_path, {"mine": Counts, "mine.words": lambda answer: 7})
    assert found.metrics_summary["mean_mine.words"] == 7 and "mean_mine.signs" not in found.metrics_summary
    assert "its number must not be called 'mine.words'" in next(iter(found.errors))["error"]


def test_keys_without_end_are_an_error_of_their_rows(tmp_path: Path) -> None:
    rows = [{"id": str(n), "answer": "a"} for n in range(150)]
    found = run(tmp_path, {"mine": lambda answer, id: {f"k{id}": 1, "k": 2}}, rows)
    assert len(found.summary["evaluators"]) == 100
    assert any("at most 100 different keys over all rows" in each["error"] for each in found.errors)


def test_exports_report_and_comparison(tmp_path: Path) -> None:
    found = run(tmp_path, {"mine": Counts})
    export_csv(found.run, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["scores.mine.words"] for row in table] == ["2.0", "4.0"] and "scores.mine" not in table[0]
    export_jsonl(found.run, tmp_path / "rows.jsonl")
    scores = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])["scores"]
    assert (sorted(scores), scores["mine.words"][0]["reason"]) == (["mine.signs", "mine.words"], "counted")
    folder = found.download_evaluation_artifacts(tmp_path / "files")
    assert json.loads((folder / "eval_results.jsonl").read_text().splitlines()[1])["mine.signs"] == 20.0
    other = run(tmp_path, {"mine": Counts}, [{**row, "answer": "one"} for row in ROWS])
    compared = other.compare(found).metrics
    assert compared["mine.words"].difference == -2.0 and not compared["mine.words"].warning
    page = found.to_html(tmp_path / "report.html").read_text()
    assert "mine.words" in page and "mine.signs" in page


def test_saved_evaluators_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counting.py").write_text(
        "def counts(response, **kwargs):\n    return {'words': len(response.split()), 'signs': len(response)}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with Store(tmp_path / "s.sqlite") as store:
        save_evaluator(store, "mine", "counting:counts")
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, ROWS)))
    options = [
        "--data",
        str(data),
        "--store",
        str(tmp_path / "s.sqlite"),
        "--quiet",
        "--fail-if",
        "mean_mine.words != 3",
    ]
    assert main(["eval", "run", *options, "--metrics", "mine", "--threshold", "mine.words=2"]) == 0
    named = run(tmp_path, {"mine": "counting:counts"}, data)
    assert named.metrics_summary == BOTH
    scored = rescore_run(tmp_path / "s.sqlite", named.run_id, evaluators={"more": "counting:counts"})
    assert scored.metrics_summary == {**BOTH, "mean_more.signs": 14.5, "mean_more.words": 3.0}


def test_pages_of_the_studio(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from tests.web.pages import client, text_of

    found = run(tmp_path, {"mine": Counts}, thresholds={"mine.words": 3})
    browser = client(tmp_path / "s.sqlite")
    for path in (f"/runs/{found.run_id}", f"/runs/{found.run_id}/rows/1"):
        page = browser.get(path)
        assert page.status_code == 200 and "mine.words" in text_of(page)
    assert "mine.words" in text_of(browser.get("/"))


def test_a_score_of_another_evaluator_is_no_part_of_one_whose_score_is_missing() -> None:
    parts = Parts(["mine", "mine.words"])
    assert parts.is_open("mine", []) and parts.is_open("mine", [("mine.words", 0), ("mines", 0)])
    assert not parts.is_open("mine", [("mine.signs", 0)]) and not parts.is_open("mine", [("mine", 0)])
