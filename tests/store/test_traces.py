"""Traces of scores and answers: kept with them, replaced with them, read back as they were."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError, LeaseError, StoreError
from valor_gpu.store import (
    Run,
    Store,
    StoredRow,
    StoredScore,
    StoredTrace,
    keep_traces,
    schema,
    size_of_traces,
    traces_of,
)
from valor_gpu.store import traces as module
from valor_gpu.store.traces import about_size_of_traces

HOSTILE = (
    "<script>alert(1)</script>", "\x00\x01\x1b[31m", "\u202eright to left\u202c", "lone \ud800 surrogate \udfff", "",
    "\r\n", "é中文🎉",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s.sqlite") as opened:
        yield opened


@pytest.fixture
def run(store: Store) -> Run:
    made = store.create_run("r", {})
    made.add_rows([StoredRow(number, f"k{number}", {"question": "?"}) for number in range(1, 11)])
    return made


def value(rng: random.Random, depth: int = 0) -> Any:
    """Random JSON with odd texts."""
    kind = rng.randrange(7 if depth < 4 else 5)
    if kind == 5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {rng.choice(HOSTILE) + str(n): value(rng, depth + 1) for n in range(rng.randrange(4))}
    return (None, rng.random() < 0.5, rng.randrange(-(10**12), 10**12), rng.uniform(-1e9, 1e9),
            "".join(rng.choices(HOSTILE, k=rng.randrange(5))))[kind]  # fmt: skip


def rows_of(store: Store, sql: str) -> list[Any]:
    connection = sqlite3.connect(store.path)
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def test_contents_come_back_as_they_were_also_beside_a_base(run: Run) -> None:
    rng = random.Random(38)
    contents = [{"calls": [value(rng)], "n": n} for n in range(60)]
    base = StoredTrace(1, "m", content=contents[0]).as_base()
    run.add_scores([], [base])
    places = [(row, repeat) for row in range(1, 11) for repeat in range(6)]
    traces = [
        StoredTrace(row, "m", repeat, content, base if repeat % 2 else None)
        for (row, repeat), content in zip(places, contents)
    ]
    keep_traces(run, traces)
    found = [each for row in range(1, 11) for each in traces_of(run, row)]
    assert found == traces
    assert [each.content for each in found] == contents


def test_a_text_of_five_megabytes_comes_back(run: Run) -> None:
    text = "".join(random.Random(1).choices("abc é\ud800", k=5_000_000))
    keep_traces(run, [StoredTrace(3, "m", content={"text": text})])
    assert traces_of(run, 3)[0].content["text"] == text


def test_traces_of_a_row_come_by_evaluator_and_repeat_that_of_the_answer_first(run: Run) -> None:
    given = [StoredTrace(2, name, repeat, {"n": n}) for n, (name, repeat) in enumerate(
        [("b", 1), ("b", 0), ("", 0), ("a\ud800", 0), ("a", 2)])]  # fmt: skip
    keep_traces(run, given)
    assert [(each.evaluator, each.repeat) for each in traces_of(run, 2)[:4]] == [("", 0), ("a", 2), ("b", 0), ("b", 1)]
    assert sorted(map(repr, traces_of(run, 2))) == sorted(map(repr, given))
    assert traces_of(run, 3) == [] == traces_of(run, 999)


def test_a_score_that_is_replaced_replaces_its_trace_and_one_with_a_value_stays(run: Run) -> None:
    def add(score: float | None, said: str) -> None:
        status = "ok" if score is not None else "timeout"
        run.add_scores([StoredScore(1, "m", 0, score, status)], [StoredTrace(1, "m", content={"said": said})])

    for score, said, kept in ((None, "a", "a"), (None, "b", "b"), (4.0, "c", "c"), (5.0, "d", "c"), (None, "e", "c")):
        add(score, said)
        assert [each.content["said"] for each in traces_of(run, 1)] == [kept]
    assert [score.value for score in run.scores()] == [4.0]
    keep_traces(run, [StoredTrace(1, "m", content={"said": "f"})])
    assert traces_of(run, 1)[0].content == {"said": "f"}


def test_an_answer_that_is_replaced_loses_its_traces_and_a_final_one_keeps_them(store: Store) -> None:
    run = store.create_run("r", {})

    def add(status: str, said: str) -> None:
        run.add_rows([StoredRow(1, "k", {}, {"a": said}, status)], [StoredTrace(1, content={"said": said})])

    add("target_error", "a")
    run.add_scores([StoredScore(1, "m", 0, 1.0)], [StoredTrace(1, "m", content={"said": "of a"})])
    add("target_error", "b")
    assert [each.content["said"] for each in traces_of(run, 1)] == ["b"]
    add("ok", "c")
    add("ok", "d")
    assert [each.content["said"] for each in traces_of(run, 1)] == ["c"]
    assert run.rows()[0].outputs == {"a": "c"}


@pytest.mark.parametrize(
    ("scores", "traces", "match"),
    [
        ([StoredScore(1, "m", 0, 1.0), StoredScore(99, "m", 0, 1.0)], [StoredTrace(1, "m")], "row 99 is not in run"),
        ([StoredScore(1, "m", 0, 1.0)], [StoredTrace(1, "m"), StoredTrace(99, "m")], "traces must be of rows"),
        ([StoredScore(1, "m", 0, 1.0)], [StoredTrace(1, "m", content={"n": float("nan")})], "JSON values"),
        ([StoredScore(1, "m", 0, 1.0)], [StoredTrace(1, "m", content={1: "key"})], "texts as keys"),
    ],
)
def test_scores_and_traces_are_kept_together_or_not_at_all(
    run: Run, scores: list[StoredScore], traces: list[StoredTrace], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        run.add_scores(scores, traces)
    assert not list(run.scores()) and traces_of(run, 1) == [] and size_of_traces(run) == 0


def test_rows_and_traces_are_kept_together_or_not_at_all(store: Store) -> None:
    run = store.create_run("r", {})
    with pytest.raises(InputError, match="traces must be of rows"):
        run.add_rows([StoredRow(1, "k", {})], [StoredTrace(2)])
    assert run.rows() == []


@pytest.mark.parametrize(
    ("trace", "match"),
    [
        (StoredTrace(0, "m"), "row must be at least 1"),
        (StoredTrace(1, "m", -1), "repeat must be at least 0"),
        (StoredTrace(1, 5), "evaluator must be str"),  # type: ignore[arg-type]
        (StoredTrace(1, "m", content=[]), "content must be Mapping"),  # type: ignore[arg-type]
        (StoredTrace(11, "m"), "traces must be of rows that are stored"),
    ],
)
def test_what_is_no_trace_is_rejected(run: Run, trace: StoredTrace, match: str) -> None:
    with pytest.raises(InputError, match=match):
        keep_traces(run, [StoredTrace(1, "good"), trace])
    assert traces_of(run, 1) == []


def test_only_the_holder_of_the_lease_writes(store: Store, run: Run) -> None:
    other = store.run(run.id)
    with run.lease(), pytest.raises(LeaseError, match="is worked on by this process"):
        keep_traces(other, [StoredTrace(1, "m")])


def test_sizes_are_those_of_the_file(store: Store, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    other = store.create_run("other", {})
    other.add_rows([StoredRow(1, "k", {})])
    keep_traces(other, [StoredTrace(1, "m", content={"long": "x" * 1000})])
    keep_traces(run, [StoredTrace(row, "m", content={"calls": [row] * row}) for row in range(1, 11)])
    [(expected,)] = rows_of(store, "SELECT sum(length(content)) FROM traces WHERE run = 1")
    assert size_of_traces(run) == expected == about_size_of_traces(run)
    monkeypatch.setattr(module, "_SAMPLE", 4)
    [(of_four,)] = rows_of(store, "SELECT sum(length(content)) FROM traces WHERE run = 1 AND row <= 4")
    assert about_size_of_traces(run) == round(of_four / 4 * 10)


def test_purged_runs_take_their_traces_along(store: Store, run: Run) -> None:
    base = StoredTrace(1, "m", content={"a": "b"}).as_base()
    run.add_scores([StoredScore(1, "m", 0, 1.0)], [base, StoredTrace(1, "m", content={"a": "b"})])
    [(kept,)] = rows_of(store, "SELECT content FROM traces WHERE repeat = 0")
    run.delete()
    assert store.purge(0) == 1
    assert rows_of(store, "SELECT count(*) FROM traces") == [(0,)]
    assert kept not in store.path.read_bytes()


def test_bases_of_two_processes_stay_apart(run: Run) -> None:
    contents = [{"prompt": "the first prompt " * 9}, {"prompt": "another prompt " * 9}]
    for repeat, content in enumerate(contents):
        base = StoredTrace(1, "m", repeat, content).as_base()
        run.add_scores([], [base])
        keep_traces(run, [StoredTrace(1, "m", repeat, content, base)])
    assert [each.content for each in traces_of(run, 1)] == contents


def test_a_base_spares_most_of_what_traces_share(run: Run) -> None:
    prompt = "".join(random.Random(0).choices("abcdefghij ", k=4000))
    contents = [{"prompt": prompt, "row": row} for row in range(1, 11)]
    base = StoredTrace(1, "m", content=contents[0]).as_base()
    alone, beside = (
        sum(len(StoredTrace(1, "m", 0, each, given).bound(1)[4]) for each in contents) for given in (None, base)
    )
    assert beside < alone / 10


def test_a_damaged_file_is_told(store: Store, run: Run) -> None:
    base = StoredTrace(1, "m", content={"a": "b"}).as_base()
    run.add_scores([], [base])
    keep_traces(run, [StoredTrace(1, "m", 0, {"a": "b"}, base), StoredTrace(2, "m", content={"a": "b"})])
    connection = sqlite3.connect(store.path)
    connection.execute("DELETE FROM traces WHERE repeat < 0")
    connection.execute("UPDATE traces SET content = X'78' WHERE row = 2")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"by .m. of row 1 in run .*the text that it shares with others is gone"):
        traces_of(run, 1)
    with pytest.raises(StoreError, match=r"by .m. of row 2 in run"):
        traces_of(run, 2)


def test_a_store_of_the_version_before_opens_without_traces(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    schema.migrate(connection, str(path), schema.MIGRATIONS[:2])
    columns = "uid, name, state, config, tags, dataset, created"
    connection.execute(f"INSERT INTO runs ({columns}) VALUES ('u', 'n', 'finished', '{{}}', '{{}}', '', 0)")
    connection.execute("INSERT INTO rows VALUES (1, 1, 1, 'k', '{}', '{}', 'ok', '')")
    connection.close()
    with Store(path) as store:
        run = store.run("u")
        assert traces_of(run, 1) == [] and size_of_traces(run) == about_size_of_traces(run) == 0
        keep_traces(run, [StoredTrace(1, "m", content={"a": 1})])
        assert traces_of(run, 1) == [StoredTrace(1, "m", content={"a": 1})]
