"""Rows of several runs beside a baseline, against plain loops over what was stored."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation import compare_group
from valor_gpu.evaluation.results.changed_rows import ChangedRows
from valor_gpu.store import Run, Store, StoredRow, StoredScore

INFOS: list[dict[str, Any]] = [
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False},
    {"name": "length", "kind": "text", "low": None, "high": None, "higher_is_better": None},
]
Values = dict[tuple[int, str], float]


def made(store: Store, seed: int, epochs: int = 1) -> tuple[Run, Values]:
    """A run of some of 60 keys in an order of its own, with its mean scores by key."""
    draw = random.Random(seed)
    run = store.create_run(f"run {seed}", {"evaluators": INFOS, "epochs": epochs, "data": {"hash": "h"}})
    keys = draw.sample(range(60), 45)
    values: Values = {(key, ""): 0.0 for key in keys}  # so that rows without a score are known
    rows, scores = [], []
    for question, key in enumerate(keys):
        given: dict[str, list[float]] = {}
        for epoch in range(1, epochs + 1):
            number = question * epochs + epoch
            name = f"k{key}" if epoch == 1 else f"k{key}@{epoch}"
            rows.append(StoredRow(number, name, {"question": f"q{key}", "answer": f"run{seed} says {key % 7}"}))
            for info in INFOS:
                if draw.random() < 0.85:
                    value = draw.choice([0, 1, 2]) / 2 if info["low"] == 0 else float(draw.randrange(300))
                    given.setdefault(info["name"], []).append(value)
                    scores.append(StoredScore(number, info["name"], 0, value))
        values |= {(key, name): math.fsum(found) / len(found) for name, found in given.items()}
    run.add_rows(rows)
    run.add_scores(scores)
    with run.lease():
        run.finish("finished", {})
    return run, values


@pytest.fixture(params=[1, 2])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ChangedRows, list[Run], list[Values]]]:
    with Store(tmp_path / "s.sqlite") as store:
        pairs = [made(store, seed, request.param) for seed in (1, 2, 3)]
        runs = [run for run, _ in pairs]
        yield ChangedRows(compare_group(runs, resamples=20)), runs, [values for _, values in pairs]


def keys_of(found: ChangedRows, baseline: Run, chosen: Any) -> list[int]:
    epochs = baseline.config["epochs"]
    numbers = [(int(found.questions[row]) - 1) * epochs + 1 for row in chosen]
    return [int(row.key[1:]) for row in baseline.rows(numbers=numbers)]


def changes(values: list[Values], place: int, name: str) -> dict[int, tuple[float, float]]:
    """Number in the baseline and in a run, by key; NaN for a score that is missing."""
    keys = {key for key, _ in values[0]} & {key for key, _ in values[place + 1]}
    none = math.nan
    return {key: (values[0].get((key, name), none), values[place + 1].get((key, name), none)) for key in keys}


def sizes(values: list[Values], kind: str, metric: str | None, places: list[int]) -> dict[int, float]:
    """The largest change of each key by a plain loop."""
    found: dict[int, float] = {}
    for place in places:
        for info in INFOS:
            if metric not in (None, info["name"]):
                continue
            if kind in ("worse", "better") and info["higher_is_better"] is None:
                continue
            pairs = changes(values, place, info["name"])
            scale = info["high"] or max(abs(run - base) for base, run in pairs.values() if not math.isnan(run - base))
            for key, (base, run) in pairs.items():
                size = (run - base) / scale
                if kind in ("worse", "better"):
                    size = size if (kind == "better") == info["higher_is_better"] else -size
                else:
                    size = abs(size)
                if size > found.get(key, -math.inf):
                    found[key] = size
    return found


@pytest.mark.parametrize("metric", [None, "f1_score", "violence"])
@pytest.mark.parametrize("kind", ["worse", "better", "different"])
@pytest.mark.parametrize("places", [[0, 1], [1]])
def test_rows_come_by_their_largest_change(group: Any, kind: str, metric: str | None, places: list[int]) -> None:
    found, runs, values = group
    chosen = keys_of(found, runs[0], found.choose(metric, kind, "change", places)[0])
    expected = sizes(values, kind, metric, places)
    assert len(set(chosen)) == len(chosen)
    order = [expected.get(key, -math.inf) for key in chosen]
    assert order == sorted(order, reverse=True)
    if kind == "different":
        names = [info["name"] for info in INFOS if metric in (None, info["name"])]
        differ = {
            key
            for place in places
            for name in names
            for key, (base, run) in changes(values, place, name).items()
            if base != run and not (math.isnan(base) and math.isnan(run))
        }
        assert set(chosen) == differ
    else:
        assert set(chosen) == {key for key, size in expected.items() if size > 0}


def test_rows_in_the_order_of_the_baseline(group: Any) -> None:
    found, runs, _ = group
    chosen = keys_of(found, runs[0], found.choose(None, "all", "number")[0])
    keys = [int(row.key[1:]) for row in runs[0].rows() if "@" not in row.key]
    others = {row.key.partition("@")[0] for run in runs[1:] for row in run.rows()}
    assert chosen == [key for key in keys if f"k{key}" in others]


def test_the_largest_change_of_a_row_is_the_one_that_ordered_it(group: Any) -> None:
    found, runs, values = group
    for kind in ("different", "worse", "better"):
        for place in (0, 1):
            expected = sizes(values, kind, None, [place])
            rows, _ = found.choose(None, kind, "change", [place])
            for row, key in zip(rows, keys_of(found, runs[0], rows)):
                change = found.largest(int(row), place, None, kind)
                if change is None:
                    assert expected.get(key, 0.0) <= 0, "a score of one run alone has no difference"
                    continue
                base, run = changes(values, place, change.metric)[key]
                assert (change.baseline, change.run, change.difference) == (base, run, run - base)
                assert math.isclose(change.size, expected[key])
                up = next(info["higher_is_better"] for info in INFOS if info["name"] == change.metric)
                higher = run > base
                words = ("higher", "lower") if up is None else ("better", "worse") if up else ("worse", "better")
                assert change.reading == words[0 if higher else 1]


def test_words_are_looked_for_in_the_baseline_and_the_runs(group: Any) -> None:
    found, runs, _ = group
    for text, places in (("run2 says 3", [0, 1]), ("run2 says 3", [1]), ("run1 says 5", [1]), ("q7", [0])):
        chosen, how = found.choose(None, "all", "number", places, text)
        holds = {
            row.key.partition("@")[0]
            for run in (runs[0], *(runs[place + 1] for place in places))
            for row in run.rows(limit=1000)
            if text in f"{row.inputs['question']} {row.inputs['answer']}".split(" and ")[0]
        }
        able = {row.key for place in places for row in runs[place + 1].rows(limit=1000)}
        base = {row.key for row in runs[0].rows(limit=1000) if "@" not in row.key}
        expected = {key for key in holds & able & base}
        if text == "q7":
            expected = {"k7"} & able & base
        assert {f"k{key}" for key in keys_of(found, runs[0], chosen)} == expected and how == "words"


def test_a_row_that_a_run_lacks_has_no_change_there(group: Any) -> None:
    found, _, _ = group
    rows, _ = found.choose(None, "all", "number")
    lacking = [int(row) for row in rows if found.places[1, row] < 0]
    assert lacking and all(found.largest(row, 1) is None for row in lacking)


def test_what_cannot_be_chosen(group: Any) -> None:
    found, _, _ = group
    with pytest.raises(InputError, match="order must be 'change' for length: neither higher nor lower is better"):
        found.choose("length", "worse")
    with pytest.raises(InputError, match="kind must be one of"):
        found.choose(None, "other")
    with pytest.raises(InputError, match="sort must be one of"):
        found.choose(None, "all", "other")
