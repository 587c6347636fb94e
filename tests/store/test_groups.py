"""Failures by cause, and worst rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from valor_gpu.errors import InputError
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.store.groups import FailureGroup, failed_rows, failed_scores, failed_totals, wording, worst_rows


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Store(tmp_path / "store.sqlite") as store:
        run = store.create_run("capitals", {})
        run.add_rows(
            [
                StoredRow(1, "a", {}),
                StoredRow(2, "b", {}),
                StoredRow(3, "c", {}),
                StoredRow(4, "d", {}, {}, "timeout", "after 60 s"),
                StoredRow(5, "e", {}, {}, "target_error", "500: " + "x" * 300 + "row 5"),
                StoredRow(6, "f", {}, {}, "target_error", "500: " + "x" * 300 + "row 6"),
            ]
        )
        other = store.create_run("other", {})
        other.add_rows([StoredRow(1, "a", {}, {}, "timeout", "of another run")])
        other.add_scores([StoredScore(1, "f1_score", 0, 0.0)])
        yield run


def score(row: int, value: float | None, name: str = "f1_score", repeat: int = 0, reason: str = "") -> StoredScore:
    return StoredScore(row, name, repeat, value, "ok" if value is not None else "parse_error", reason)


def test_rows_without_an_answer_are_grouped_by_the_beginning_of_their_message(run: Run) -> None:
    groups, rest = failed_rows(run)
    long = "500: " + "x" * 195
    assert groups == [FailureGroup("", "target_error", long, 2, 5), FailureGroup("", "timeout", "after 60 s", 1, 4)]
    assert rest == 0
    assert failed_rows(run, limit=1) == (groups[:1], 1)


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("row 17: answer must be a text but is 'Paris, of course'", "row #: answer must be a text but is …"),
        ("'temperature' is not `max_tokens` or \"top_p\"", "'temperature' is not `max_tokens` or \"top_p\""),
        ("HTTP 404 after 3.5 s at 0x7f-3a, HTTP 400x", "HTTP 404 after # s at #, HTTP #"),
        ("it's a thing that isn't so", "it's a thing that isn't so"),
        (r'the reply “Nø 1” is no "\"quoted\" text', "the reply … is no …"),
        ("Error code: 400 - {'error': {'message': \"Bad 'seed' here\", 'code': None}}",
         "Error code: # -  error message Bad 'seed' here code None}}"),
        ('{"a": "Bad key", "b": [{"c": "Two words"}]}', " a Bad key b c Two words ]}"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_wording_of_a_reason_leaves_out_what_is_of_one_row(reason: str, found: str) -> None:
    assert wording(reason) == found


def test_reasons_of_one_wording_are_one_group_and_too_many_are_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.add_scores([score(n, None, reason=f"row {n} is 'no Number'") for n in (1, 2, 3)])
    run.add_scores([score(4, None, reason="late"), score(5, None, reason="Late")])
    assert failed_scores(run) == (
        [
            FailureGroup("f1_score", "parse_error", "row 1 is 'no Number'", 3, 1),
            FailureGroup("f1_score", "parse_error", "late", 1, 4),
            FailureGroup("f1_score", "parse_error", "Late", 1, 5),
        ],
        0,
    )
    monkeypatch.setattr("valor_gpu.store.groups.MOST_CAUSES", 2)
    groups, rest = failed_scores(run)
    assert [group.n for group in groups] == [3, 1] and rest == 1


def test_scores_without_a_value_are_grouped_by_evaluator_status_and_reason(run: Run) -> None:
    run.add_scores([score(1, None, reason="no number"), score(2, None, reason="no number"), score(3, 0.5)])
    run.add_scores([score(3, None, "bleu", reason="lone \ud800")])
    groups, rest = failed_scores(run)
    totals = {("", "timeout"): 1, ("", "target_error"): 2, ("bleu", "parse_error"): 1, ("f1_score", "parse_error"): 2}
    assert failed_totals(run) == totals
    assert groups[0] == FailureGroup("f1_score", "parse_error", "no number", 2, 1)
    assert (groups[1].evaluator, groups[1].n, groups[1].first_row, rest) == ("bleu", 1, 3, 0)
    assert groups[1].reason.startswith("lone ")
    assert failed_scores(run, 1) == (groups[:1], 1)


def test_worst_rows_count_every_score_on_its_scale_and_repeats_once(run: Run) -> None:
    run.add_scores([score(1, 0.2), score(2, 0.4), score(3, 0.9), score(3, 0.1, repeat=1)])
    run.add_scores([score(1, 7, "violence"), score(2, 0, "violence"), score(3, None, "violence")])
    scales = {"f1_score": (0.0, 1.0), "violence": (7.0, 0.0)}
    assert worst_rows(run, scales) == [(1, pytest.approx(0.1)), (3, pytest.approx(0.5)), (2, pytest.approx(0.7))]
    assert [row for row, _ in worst_rows(run, scales, 2, "best")] == [2, 3]
    assert worst_rows(run, {"f1_score": (0.3, 0.35)})[0] == (1, 0.0)  # beyond the scale
    assert worst_rows(run, {}) == [] and worst_rows(run, {"bleu": (0, 1)}) == []


def test_wrong_arguments_are_errors(run: Run) -> None:
    with pytest.raises(InputError, match=r"scales\['f1_score'\] must have two ends that differ but both are 1"):
        worst_rows(run, {"f1_score": (1, 1)})
    with pytest.raises(InputError, match="which must be one of 'worst', 'best' but got 'all'"):
        worst_rows(run, {}, which="all")
    with pytest.raises(InputError, match="limit must be at least 1 but got 0"):
        failed_rows(run, 0)
