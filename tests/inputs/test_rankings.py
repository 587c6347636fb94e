"""Files of judged and of ranked documents: forms, ids as texts, errors with their lines, ties."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.inputs import _trec_lines, rankings
from valor_gpu.inputs.ranked_lists import Judgements
from valor_gpu.inputs.rankings import DocumentRows, read_judgements, read_run

JUDGED = [("007", "d1", 2.0), ("7", "d1", 0.0), ("007", "ü", 1.0)]
RANKED = [("007", "d1", 1.5), ("7", "x", -2.0), ("7", "d1", 1e-3)]


def triples(rows: DocumentRows) -> list[tuple[str, str, float]]:
    codes = zip(rows.query.tolist(), rows.document.tolist(), rows.numbers.tolist())
    return [(rows.queries[query], rows.documents[document], number) for query, document, number in codes]


def written(path: Path, content: str) -> str:
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


FORMS = {
    "a.qrels": "007 0 d1 2\n\n7\t0  d1 0\r\n 007 0 ü 1",
    "a.txt.gz": "007 0 d1 2\n7 0 d1 0\n007 0 ü 1\n",
    "a.tsv": "007\t0\td1\t2\n7\t0\td1\t0\n007\t0\tü\t1\n",
    "beir.tsv": "query-id\tcorpus-id\tscore\n007\td1\t2\n7\td1\t0\n007\tü\t1\n",
    "a.csv": "query_id,doc_id,relevance\n007,d1,2\n7,d1,0\n007,ü,1\n",
    "a.csv.gz": "Relevance,DocNo,QID\n2,d1,007\n0,d1,7\n1,ü,007\n",
    "a.jsonl": '{"query_id": "007", "doc_id": "d1", "relevance": 2}\n{"query_id": 7, "doc_id": "d1", "relevance": 0}\n'
    '{"query_id": "007", "document_id": "ü", "query_relevance_label": 1}\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_judgements(name: str, tmp_path: Path) -> None:
    assert triples(read_judgements(written(tmp_path / name, FORMS[name]))) == JUDGED


def test_rows_that_hold_all_documents_of_a_query(tmp_path: Path) -> None:
    rows = [
        {"query_id": "007", "retrieval_ground_truth": [{"document_id": "d1", "query_relevance_label": 2}],
         "retrieved_documents": [{"document_id": "d1", "relevance_score": 1.5}]},
        {"query_id": "7", "retrieval_ground_truth": [{"document_id": "d1", "query_relevance_label": 0}],
         "retrieved_documents": [{"document_id": "x", "relevance_score": -2}, {"doc_id": "d1", "score": 1e-3}]},
    ]  # fmt: skip
    path = written(tmp_path / "rows.jsonl", "\n".join(map(json.dumps, rows)))
    assert triples(read_judgements(path)) == JUDGED[:2] and triples(read_run(path)) == RANKED


def test_forms_of_runs(tmp_path: Path) -> None:
    trec = "007 Q0 d1 1 1.5 tag\n7 Q0 x 9 -2 tag\n7 Q0 d1 1 1e-3 tag\n"
    table = "query_id,doc_id,score\n007,d1,1.5\n7,x,-2\n7,d1,1e-3\n"
    for name, content in (("a.run", trec), ("a.tsv", trec.replace(" ", "\t")), ("a.csv", table)):
        assert triples(read_run(written(tmp_path / name, content))) == RANKED, name


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    columns = {"query_id": ["007", "7", "007"], "doc_id": ["d1", "d1", "ü"], "relevance": [2, 0, 1]}
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    assert triples(read_judgements(str(path))) == JUDGED


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.qrels", "1 0 d 1\n1 0 d\n", r"line 2 must have 4 columns \(query, 0, document and relevance\) but has 3"),
        ("a.qrels", "1 0 d 1\n\n1 0 e x\n", "a.qrels, line 3 must have a number as relevance but has 'x'"),
        ("a.qrels", "1 0 d 1_0\n", "a.qrels, line 1 must have a number as relevance but has '1_0'"),
        ("a.qrels", "1 0 d 0.5\n", "a.qrels, line 1 must have a whole number as relevance but has 0.5"),
        ("a.qrels", "1 0 d 1\n2 0 d 1\n1 0 d 0\n",
         "a.qrels, line 3 must have another document of query '1' but 'd' came in line 1 before"),
        ("a.csv", "query_id,doc_id,relevance\n1,d,inf\n", "line 2, column 'relevance' must hold a finite number"),
        ("a.csv", "query_id,doc_id,relevance\n,d,1\n", "a.csv, line 2 must have a query and a document but lacks one"),
        ("a.csv", "query_id,text,relevance\n1,d,1\n", "must have a column 'doc_id' but has query_id, text"),
        ("a.jsonl", '{"query_id": "1", "doc_id": "d"}\n', "line 1 must have 'relevance' but has query_id, doc_id"),
        ("a.jsonl", '{"query_id": 1.5, "doc_id": "d"}\n', "'query_id' must be a text or a whole number but is 1.5"),
        ("a.jsonl", '{"query_id": "1", "doc_id": "d", "relevance": true}\n', "'relevance' must be a number but"),
        ("a.jsonl", '{"query_id": "1", "retrieval_ground_truth": 3}\n', "must be a list of objects but is 3"),
        ("a.jsonl", '{"query_id": "1", "retrieval_ground_truth": [{"document_id": "d"}]}\n',
         r"line 1, retrieval_ground_truth\[0\] must have 'relevance' but has document_id"),
    ],
)  # fmt: skip
def test_bad_lines_are_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_judgements(written(tmp_path / name, content))


def test_bad_scores_are_named(tmp_path: Path) -> None:
    for score in ("nan", "inf", "1e999"):
        with pytest.raises(InputError, match=r"a\.run, line 2 must have a (finite )?number as score"):
            read_run(written(tmp_path / "a.run", f"1 Q0 d 1 2 t\n1 Q0 e 2 {score} t\n"))
    with pytest.raises(InputError, match="must be UTF-8 but has the byte 0xFF"):
        (tmp_path / "b.run").write_bytes(b"1 Q0 d\xff 1 2 t\n")
        read_run(str(tmp_path / "b.run"))


GAPS = ("1  Q0 d 0.5 t", "1 Q0 d  0.5 t", "1 Q0 d 1 0.5 ", "1 Q0 d 1 2 a\vb")  # as many blanks as in good lines
BAD = (
    *GAPS,
    "1 Q0 d 1 x t",
    "1 Q0 d 1",
    "1 Q0 a\tb 1 2 t",
    "1 Q0 doc0 1 2 t",
    "1 Q0 z 1 nan t",
    "1 Q0 a\vb 1 2 t",
    "\u00a0",
)
UNUSUAL = ("1\tQ0\td\t1\t2\tt", " 1 Q0 y 7 2 t ", "1 Q0 a\u00a0b\u2003 1 2 t", "1 Q0 \x1ca\x1f 1 2 t", "1\vQ0\fd 1 2 t")


@pytest.mark.parametrize("last", ["", *BAD, *UNUSUAL])
def test_pyarrow_reads_what_lines_one_by_one_are(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.setattr(_trec_lines, "_QUICK", 10)
    lines = [f"{query} Q0 doc{place} {place} {place / 7!r} tag" for query in ("1", "007") for place in range(50)]
    path = written(tmp_path / "a.run", "\n".join([*lines, last]))

    def read() -> Any:
        try:
            return triples(read_run(path))
        except InputError as error:
            return str(error)

    quick = read()
    monkeypatch.setattr(rankings, "by_arrow", lambda *_: None)
    assert quick == read() and (type(quick) is list) == (last not in BAD)


def test_columns_lie_between_white_space_of_ascii(tmp_path: Path) -> None:
    path = written(tmp_path / "a.qrels", "\u00a01 0 a\u00a0b 2\n\u00a01\v0\fc\x1c\t1\r\n")
    assert triples(read_judgements(path)) == [("\u00a01", "a\u00a0b", 2.0), ("\u00a01", "c\x1c", 1.0)]


def plain_lists(judged: list[Any], ranked: list[Any], ties: str) -> list[tuple[str, float, bool]]:
    """Query, grade and whether it was retrieved, in the order of the ranks."""
    queries = list(dict.fromkeys(query for query, _, _ in judged))
    grades = {(query, document): max(grade, -1) for query, document, grade in judged}
    found = []
    for query in queries:
        rows = [(score, document) for other, document, score in ranked if other == query]
        if ties == "document":
            rows.sort(key=lambda row: row[1], reverse=True)
        rows.sort(key=lambda row: row[0], reverse=True)
        found += [(query, grades.get((query, document), -1), True) for _, document in rows]
    there = {(query, document) for query, document, _ in ranked}
    return found + [
        (query, grade, False) for (query, document), grade in grades.items() if (query, document) not in there
    ]


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("ties", ["document", "file"])
def test_lists_are_ranked_as_plain_python_ranks_them(seed: int, ties: str, tmp_path: Path) -> None:
    draw = random.Random(seed)
    documents = [f"d{place}" for place in range(9)] + ["é", "Z", "~"]
    judged = [(f"q{query}", document, draw.randint(-2, 3)) for query in range(draw.randint(1, 6))
              for document in draw.sample(documents, draw.randint(1, 12))]  # fmt: skip
    ranked = [(f"q{query}", document, draw.randint(0, 3) / 4) for query in range(draw.randint(0, 8))
              for document in draw.sample(documents, draw.randint(0, 12))]  # fmt: skip
    draw.shuffle(ranked)
    draw.shuffle(judged)
    first = written(tmp_path / "a.qrels", "".join(f"{q} 0 {d} {g}\n" for q, d, g in judged))
    second = written(tmp_path / "a.run", "".join(f"{q} Q0 {d} 1 {s} t\n" for q, d, s in ranked))
    judgements = Judgements(read_judgements(first))
    found = judgements.lists(read_run(second), ties)
    names = [judgements.queries[place] for place in found.indexes.tolist()]
    expected = plain_lists(judged, ranked, ties)
    assert sorted(zip(names, found.target.tolist(), found.retrieved.tolist())) == sorted(expected)
    retrieved = list(zip(names, found.target.tolist(), found.retrieved.tolist()))[: found.documents]
    assert retrieved == [row for row in expected if row[2]] and np.all(np.diff(found.preds) < 0)
    unknown = {query for query, _, _ in ranked} - set(judgements.queries)
    assert found.unknown_queries == len(unknown)
    assert found.judged_documents == sum(grade >= 0 for _, grade, there in expected if there)


def test_marks_are_those_of_the_judgements_in_any_order(tmp_path: Path) -> None:
    lines = ["1 0 a 1", "1 0 b 0", "2 0 a 1"]
    marks = [Judgements(read_judgements(written(tmp_path / "a", "\n".join(each)))).marks().tolist()
             for each in (lines, [lines[1], lines[0], lines[2]], ["1 0 a 2", *lines[1:]])]  # fmt: skip
    assert marks[0] == marks[1] and marks[2][0] != marks[0][0] and marks[2][1] == marks[0][1]
