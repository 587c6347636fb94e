"""Slices of queries: those of a run on the queries of the slice alone, by the class and by the command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu import retrieval
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.errors import InputError
from valor_gpu.stats import Bootstrap, compare

QUERIES, DOCUMENTS = 24, 6
TABLE: dict[str, Any] = {
    "query": [3 * place for place in range(QUERIES + 5)],  # of five other queries as well
    "language": [("de", "en", None)[place % 3] for place in range(QUERIES + 5)],
    "words": list(range(QUERIES + 5)),
}


def documents(seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    indexes = torch.arange(QUERIES).repeat_interleave(DOCUMENTS) * 3
    return torch.from_numpy(rng.random(len(indexes))), torch.from_numpy(rng.random(len(indexes)) < 0.3), indexes


def filled(kind: Any, keep: Any = None, **choices: Any) -> Any:
    metric, batch = kind(**choices), documents()
    kept = torch.ones(len(batch[0]), dtype=torch.bool) if keep is None else torch.isin(batch[2], torch.tensor(keep))
    metric.update(*(side[kept] for side in batch))
    return metric


@pytest.mark.parametrize("kind", [retrieval.RetrievalNormalizedDCG, retrieval.RetrievalMAP, retrieval.RetrievalFallOut])
@pytest.mark.parametrize("aggregation", ["mean", "median"])
def test_a_slice_is_a_run_on_its_queries(kind: Any, aggregation: str) -> None:
    found = filled(kind, aggregation=aggregation).result().by(TABLE, "language", "words", bins={"words": [10]})
    assert list(zip(found["column"], found["value"], found["queries"])) == [
        ("language", "de", 8), ("language", "en", 8), ("language", None, 8),
        ("words", "below 10", 10), ("words", "10 or above", 14),
    ]  # fmt: skip
    for place, keep in ((0, range(0, 72, 9)), (1, range(3, 72, 9)), (3, range(0, 30, 3))):
        expected = filled(kind, list(keep), aggregation=aggregation).result().values
        assert {name: found[name][place] for name in found.numbers} == expected


def test_crossings_names_of_queries_and_files(tmp_path: Path) -> None:
    result = filled(retrieval.RetrievalMRR).result()
    path = tmp_path / "queries.csv"
    rows = [f"{q},{lang or ''},{words}" for q, lang, words in zip(*TABLE.values())]
    path.write_text("\n".join(["qid,language,words", *rows]) + "\n")
    found = result.by(str(path), ("language", "words"), bins={"words": [12]}, numbers=["RetrievalMRR"])
    assert found["value"] == [
        f"{lang}, {words}" for lang in ("de", "en", "none") for words in ("below 12", "12 or above")
    ]
    assert found.numbers == ["RetrievalMRR"] and sum(found["queries"]) == QUERIES
    assert "queries" in str(found).splitlines()[0]


def test_intervals_are_of_the_queries_of_each_slice() -> None:
    result = filled(retrieval.RetrievalMRR).result()
    found = result.by(TABLE, "language", intervals=Bootstrap(200, seed=3))
    alone = filled(retrieval.RetrievalMRR, list(range(0, 72, 9))).result(intervals=Bootstrap(200, seed=3))
    assert found["RetrievalMRR_low"][0] == alone.intervals["RetrievalMRR"].low
    assert found["RetrievalMRR_high"][0] == alone.intervals["RetrievalMRR"].high
    assert found.choices["replicates"] == 200
    clusters = [place // 2 for place in range(QUERIES)]
    by_cluster = result.by(TABLE, "language", intervals=Bootstrap(50, clusters=clusters))
    assert by_cluster["RetrievalMRR_low"][0] < by_cluster["RetrievalMRR"][0]
    with pytest.raises(InputError, match="clusters must be one for each of 24 queries"):
        result.by(TABLE, "language", intervals=Bootstrap(50, clusters=clusters[1:]))


def test_models_are_compared_on_the_queries_of_each_slice(tmp_path: Path) -> None:
    scores, target, indexes = documents()

    def model(queries: Any, better: float) -> Any:
        metric, kept = retrieval.RetrievalMRR(), torch.isin(indexes, torch.tensor(list(queries)))
        metric.update((scores + better * target)[kept], target[kept], indexes[kept])
        return metric

    every = range(0, 72, 3)
    found = compare(model(every, 0.0), model(every, 0.3), table=TABLE, by="language", replicates=60)
    rows = {row["slice"]: row for row in found.table().rows() if row["slice"]}
    assert list(rows) == ["language: de", "language: en", "language: none"]
    for place, row in enumerate(rows.values()):
        alone = compare(*(model(range(3 * place, 72, 9), better) for better in (0.0, 0.3)), replicates=60)
        whole = alone.table().rows()[0]
        assert all(row[name] == whole[name] for name in ("first", "second", "difference", "low", "high", "p"))
    files = [str(tmp_path / name) for name in ("first.state", "second.state")]
    for file, better in zip(files, (0.0, 0.3)):
        model(every, better).save_state(file)
    assert compare(*files, table=TABLE, by="language", replicates=60).values["p"] == found.values["p"]
    with pytest.raises(InputError, match="table must have the columns of the queries but is None"):
        compare(model(every, 0.0), model(every, 0.3), by="language")


def test_slices_of_skipped_queries_have_a_reason() -> None:
    metric = retrieval.RetrievalMRR(empty_target_action="skip")
    metric.update([0.5, 0.4, 0.3], [1, 0, 1], [0, 1, 2])
    found = metric.result().by({"query_id": ["0", "1", "2"], "kind": ["a", "b", "a"]}, "kind", intervals=20)
    assert found["RetrievalMRR"][0] == 1.0 and math.isnan(found["RetrievalMRR"][1])
    assert found["RetrievalMRR_reason"][1] == "no query has a score"


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (TABLE, (), "columns must name at least one column"),
        (TABLE, ("langage",), "columns must be among 'language', 'words', which table has, but got 'langage'"),
        (TABLE, (("language", 3),), "columns must be names, or tuples of names"),
        ({"language": ["de"]}, ("language",), "table must have a column 'query', 'query_id' or 'qid'"),
        ({"query": [0, 3], "x": [1, 2]}, ("x",), "table must have a row for every query but 22 of 24 are missing"),
        ({"query": [*TABLE["query"], 6], "x": [1] * 30}, ("x",), "but query '6' is in rows 2 and 29"),
    ],
)
def test_tables_that_do_not_fit(table: Any, columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filled(retrieval.RetrievalMRR).result().by(table, *columns)


def test_curves_and_read_results_have_no_slices() -> None:
    for kind in (retrieval.RetrievalPrecisionRecallCurve, retrieval.RetrievalRecallAtFixedPrecision):
        with pytest.raises(InputError, match=r"needs the score of every query, .*: update a metric for each slice"):
            filled(kind, max_k=3).result().by(TABLE, "language")
    with pytest.raises(InputError, match="iou_type must be None for queries but got 'bbox'"):
        filled(retrieval.RetrievalMAP).result().by(TABLE, "language", iou_type="bbox")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    qrels = "".join(f"q{q} 0 d{d} {(q + d) % 3 == 0:d}\n" for q in range(6) for d in range(5))
    run = "".join(f"q{q} Q0 d{d} 1 {(7 * d + 3 * q) % 11} r\n" for q in range(6) for d in range(5))
    table = "query,language\n" + "".join(f"q{q},{'de' if q < 2 else 'en'}\n" for q in range(8))
    paths = {"qrels": tmp_path / "a.qrels", "run": tmp_path / "a.run", "table": tmp_path / "a.csv"}
    for name, text in (("qrels", qrels), ("run", run), ("table", table)):
        paths[name].write_text(text)
    return {name: str(path) for name, path in paths.items()}


def command(files: dict[str, str], *more: str) -> list[str]:
    return ["retrieval", "--qrels", files["qrels"], "--run", files["run"], *more]


def test_the_command_shows_slices(files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    options = ("--measures", "AP", "nDCG@3", "--by", "language", "--queries-table", files["table"])
    assert main(command(files, *options, "--intervals", "100", "--json", str(out))) == OK
    text, slices = capsys.readouterr().out, json.loads(out.read_text())["slices"]
    assert "language: de" in text and [row["queries"] for row in slices] == [2, 4]
    few = tmp_path / "few.qrels"
    few.write_text(
        "".join(line for line in Path(files["qrels"]).read_text().splitlines(True) if line[:2] in ("q0", "q1"))
    )
    alone = tmp_path / "alone.json"
    assert main(command({**files, "qrels": str(few)}, "--measures", "AP", "nDCG@3", "--json", str(alone))) == OK
    values = json.loads(alone.read_text())["values"]
    assert {name: slices[0][name] for name in ("AP", "nDCG@3")} == {name: values[name] for name in ("AP", "nDCG@3")}
    assert slices[0]["AP_low"] <= slices[0]["AP"] <= slices[0]["AP_high"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "language"), "--by language needs --queries-table FILE"),
        (("--queries-table", "{table}"), "--queries-table needs --by COLUMN"),
        (("--by", "color", "--queries-table", "{table}"), "--by must be among 'language'"),
        (("--by", "language", "--queries-table", "nowhere.csv"), "--queries-table must be a file but nowhere.csv"),
        (("--by", "language", "--queries-table", "{run}"), "the table must end in one of"),
        (("--by", "language", "--queries-table", "{table}", "--run", "{qrels}"), "--by must go with one --run"),
    ],
)
def test_options_that_do_not_fit(
    files: dict[str, str], options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(files, *(option.format(**files) for option in options))) == BAD_INPUT
    assert message in capsys.readouterr().err
