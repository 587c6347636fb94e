"""Lines of eval_results.jsonl: byte for byte the rows of a result as JSON, whichever way they were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.results import result_lines as module
from valor_gpu.evaluation.results.result_lines import result_lines
from valor_gpu.evaluation.results.result_rows import result_rows
from valor_gpu.store import Run, Store, StoredRow, StoredScore

_ROWS: list[dict[str, Any]] = [
    {"response": 'a "quoted": text', "n": 1, "x": [0.1, -0.0, 1e300, True, None]},
    {"f1_score": "a column of that name", "_key": 3},
    {"nested": {"f1_score": {"passed": "\u2028 é \x00"}}, "": ""},
    {},
    {"lone": "\ud800", "pair": "\ud83d\ude00"},
    {'"f1_score': 1, "metric.f1_score": 2, "big": 10**40},
]


def _encoded(run: Run, thresholds: dict[str, float | str] | None = None) -> list[str]:
    return [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in result_rows(run, thresholds)]


def _run(store: Store, evaluators: list[dict[str, Any]]) -> Run:
    run = store.create_run("lines", {"evaluators": evaluators})
    run.add_rows(
        [StoredRow(i + 1, f"key-{i}-\ud800" if i == 0 else f'"{i}é', row) for i, row in enumerate(2 * _ROWS)]
        + [StoredRow(90, "t", {"question": "?"}, {"answer": "!", "_seconds": 1.0})]
        + [StoredRow(91, "f", {"question": "?"}, {}, "timeout", "no answer")]
    )
    return run


def _scores(name: str) -> list[StoredScore]:
    more: list[dict[str, Any]] = [
        {"details": {"precision": 1 / 3, "recall": 0.1}},
        {"reason": 'said "so"\n', "level": "high"},
        {"details": {"turns": [{"score": 1}], "x": 1}},
        {"details": {"counts": [1, 2]}},
        {"details": {}},
        {"reason": "lone \udfff", "details": {"deep": {"turns": 1}}},
    ]
    found = [StoredScore(i + 1, name, 0, (-0.0, 1 / 3, 5e-324)[i % 3], **each) for i, each in enumerate(more)]
    found += [StoredScore(7, name, 0, 0.5), StoredScore(7, name, 1, 1.0)]
    found += [StoredScore(8, name, 0, None, "parse_error", "no number"), StoredScore(90, name, 0, 1.0)]
    return [*found, StoredScore(9, name, 3, 2.0), StoredScore(10, name, 0, 6.5)]


@pytest.mark.parametrize(
    "names",
    [
        ["f1_score"],
        ["zeta", "f1_score", "alpha"],
        ["gpt_fluency", "hate_unfairness"],
        ["m", "m_reason", "passed"],
        ["lone \ud800", 'quote "'],
        ["bleu_corpus", "gpt_fluency"],
    ],
)
def test_lines_are_the_rows_as_json(tmp_path: Path, names: list[str]) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        kinds: dict[str, dict[str, Any]] = {
            "gpt_fluency": {"needs_judge": True, "kind": "quality"},
            "hate_unfairness": {"kind": "safety"},
        }
        run = _run(store, [{"name": name, **kinds.get(name, {})} for name in names if name != "alpha"])
        for name in names:
            run.add_scores(_scores(name))
        expected = _encoded(run)
        assert list(result_lines(run)) == expected
        assert len(expected) == 14 and all(line.count("\n") == 1 for line in expected)


def test_thresholds_stand_in_lines(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        run = _run(store, [{"name": "rougeL"}, {"name": "f1_score"}])
        run.add_scores([*_scores("f1_score"), *_scores("rougeL")[:5]])
        limits: dict[str, float | str] = {"f1_score": 0.2, "rougeL": 0.5}
        lines = list(result_lines(run, limits))
        assert lines == _encoded(run, limits)
        assert '"passed": {"rougeL": false, "f1_score": true}' in lines[1]


def test_plain_rows_are_joined_from_stored_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        run = store.create_run("plain", {"evaluators": [{"name": "f1_score"}]})
        run.add_rows([StoredRow(n, str(n), {"response": "x", "n": n}) for n in range(1, 1202)])
        run.add_scores([StoredScore(n, "f1_score", 0, 0.5, details={"recall": 0.1}) for n in range(1, 1202)])
        expected = _encoded(run)
        monkeypatch.setattr(module, "shown_row", None)
        assert list(result_lines(run)) == expected
