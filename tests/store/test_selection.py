"""Numbers of rows by conditions against plain loops, whatever the rows and names hold."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.store import Feedback, Run, Store, StoredRow, StoredScore, selection
from valor_gpu.store.columns import Columns

NAMES = ("f1", "a'b: \ud800", "none")
HOLDS: dict[str, Any] = {
    ">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Rows with gaps between their numbers, beside another run whose scores look alike."""
    draw = random.Random(3)
    with Store(tmp_path / "s.sqlite") as store:
        runs = [store.create_run(str(k), {}) for k in range(2)]
        for run in runs:
            numbers = sorted(draw.sample(range(1, 900), 300))
            status = {n: draw.choice(["ok", "ok", "timeout", "t\ud800"]) for n in numbers}
            run.add_rows(
                [StoredRow(n, f"k{n}", {"q": draw.choice(["red", "blue 日本"])}, {}, status[n]) for n in numbers]
            )
            values = [0.0, 0.1, 1 / 3, 0.5, 0.5, -2.0]
            run.add_scores(StoredScore(n, name, 0, draw.choice(values)) for n in numbers[:200] for name in NAMES[:2])
            run.add_scores(
                StoredScore(n, name, 0, None, draw.choice(["timeout", "s\ud800"]))
                for n in numbers[200:250]
                for name in NAMES[:2]
            )
            for n in numbers[::7]:
                run.add_feedback(Feedback(n, draw.choice(["", *NAMES[:2]]), "me", draw.choice([None, 1.0]), None, "n"))
        yield runs[0]


def test_numbers_are_a_range_where_none_is_missing(tmp_path: Path, run: Run) -> None:
    assert list(selection.row_numbers(run)) == [row.number for row in run.stream_rows()]
    with Store(tmp_path / "other.sqlite") as store:
        whole = store.create_run("whole", {})
        assert selection.row_numbers(whole) == range(0)
        whole.add_rows([StoredRow(n, str(n), {}) for n in (7, 5, 6)])
        assert selection.row_numbers(whole) == range(5, 8)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_failures_of_one_evaluator(run: Run, name: str) -> None:
    scores = list(run.scores(name))
    values = [(score.value, score.row) for score in scores if score.value is not None]
    for bounds in ([], [(">=", 0.1), ("<", 0.5)], [("=", 1 / 3)], [("<=", -2.0)], [(">", 0.1)]):
        expected = sorted(row for value, row in values if all(HOLDS[sign](value, bound) for sign, bound in bounds))
        assert sorted(selection.rows_between(run, name, bounds)) == expected, bounds
    assert list(selection.rows_by_value(run, name, False)) == [row for _, row in sorted(values)]
    assert list(selection.rows_by_value(run, name, True)) == [row for _, row in sorted(values, reverse=True)]
    failed = [(score.status, score.row) for score in scores if score.value is None]
    for status in ("", "timeout", "s\ud800", "other"):
        expected = sorted(row for cause, row in failed if status in ("", cause))
        assert sorted(selection.rows_failed(run, name, status)) == expected
    assert not selection.is_repeated(run, name)


def test_statuses_texts_and_people(run: Run) -> None:
    rows = list(run.stream_rows())
    for status in ("", "timeout", "t\ud800", "other"):
        expected = [row.number for row in rows if row.status != "ok" and status in ("", row.status)]
        assert sorted(selection.rows_unanswered(run, status)) == expected
    for text, how in (("blue", "words"), ("日本", "substring")):
        expected = [row.number for row in rows if text in row.inputs["q"]]
        found, was = selection.rows_with_text(run, text)
        assert (sorted(found), was) == (expected, "substring")
        run.finish("finished", {})
        found, was = selection.rows_with_text(run, text)
        assert (sorted(found), was) == (expected, how)
        run.add_rows([])  # takes the words out of the index
    said = [each for each in run.feedback() if each.value is not None]
    for name in ("", *NAMES):
        expected = sorted({each.row for each in said if name in ("", each.evaluator)})
        assert list(selection.rows_labelled(run, name)) == expected


def test_repeats_are_seen(run: Run) -> None:
    row = next(run.scores("f1")).row
    run.add_scores([StoredScore(row, "f1", 1, None, "failed")])
    assert not selection.is_repeated(run, "f1")  # without a value there is nothing to average
    run.add_scores([StoredScore(row, "f1", 2, 0.5)])
    assert selection.is_repeated(run, "f1") and not selection.is_repeated(run, NAMES[1])


def test_what_is_no_comparison_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="comparison must be one of"):
        selection.rows_between(run, "f1", [("; DROP", 1.0)])


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("choices", [[0.0, -0.0, 0.25, 1 / 3, 3.0, -7.0, 1e300, 5e-324], [None]])
def test_values_are_those_of_a_plain_loop_in_ascending_order(tmp_path: Path, repeats: int, choices: list[Any]) -> None:
    draw = random.Random(8)
    with Store(tmp_path / "s.sqlite") as store:
        runs = [store.create_run(str(k), {}) for k in range(2)]
        for run in runs:
            numbers = draw.sample(range(1, 2000), 400)
            run.add_rows([StoredRow(n, f"k{n}", {}) for n in numbers])
            run.add_scores(
                StoredScore(n, name, k, value, "ok" if value is not None else "no")
                for n in numbers
                for name in ("f1", "f2")
                for k in range(repeats)
                for value in [draw.choice((draw.choice(choices), draw.random(), None))]
            )
        found = Columns(runs[0]).values("f1")
        expected = sorted(
            (each.value, each.row, each.repeat) for each in runs[0].scores("f1") if each.value is not None
        )
        assert sorted(zip(found.values, found.rows, found.repeats)) == expected
        assert list(found.values) == sorted(found.values) and {type(value) for value in found.values} == {float}
        assert [math.copysign(1, value) for value in found.values] == [math.copysign(1, each[0]) for each in expected]
        keys = [pair for numbers, names in Columns(runs[0]).row_keys() for pair in zip(numbers, names)]
        assert keys == [(row.number, row.key) for row in runs[0].stream_rows()]
        empty = Columns(runs[0]).values("nobody")
        assert [len(column) for column in empty] == [0, 0, 0]
