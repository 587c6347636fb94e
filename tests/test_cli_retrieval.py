"""``valor-gpu retrieval``: the numbers of trec_eval, tables of queries, comparisons, states, errors."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.plain_retrieval import plain_table
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.inputs.ranked_lists import Judgements
from valor_gpu.inputs.rankings import read_judgements, read_run
from valor_gpu.report.retrieval import score_run
from valor_gpu.retrieval.measures import parse_measures

GOLDEN = json.loads((Path(__file__).parent / "data/retrieval/trec_eval.json").read_text())
MEASURES = ("nDCG@5", "AP", "RR", "P@5", "R@5", "Rprec", "Bpref", "Success@1")
PLAIN = (
    *MEASURES,
    "DCG@3",
    "nDCG(dcg='exp-log2')",
    "ERR@10",
    "RBP(p=0.8)@7",
    "Judged@5",
    "Holes@5",
    "P(rel=2)@3",
    "AP(rel=3)@9",
)

Files = SimpleNamespace
Retrieval = Callable[..., dict[str, Any]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The recorded judgements and runs as files of TREC."""
    found = {"qrels": tmp_path / "a.qrels", **{name: tmp_path / f"{name}.run" for name in GOLDEN["runs"]}}
    found["qrels"].write_text("".join(f"{q} 0 {d} {grade}\n" for q, d, grade in GOLDEN["qrels"]))
    for name, rows in GOLDEN["runs"].items():
        found[name].write_text("".join(f"{q} Q0 {d} 1 {score} {name}\n" for q, d, score in rows))
    return Files(**{name: str(path) for name, path in found.items()})


@pytest.fixture
def retrieval(tmp_path: Path) -> Retrieval:
    """Run the command; gives the JSON."""

    def run(*options: str) -> dict[str, Any]:
        out = tmp_path / "out.json"
        assert main(["retrieval", *options, "--json", str(out)]) == OK
        found: dict[str, Any] = json.loads(out.read_text(), parse_constant=pytest.fail)
        return found

    return run


def queries_of(path: Path) -> dict[str, dict[str, float]]:
    with path.open(newline="") as file:
        return {row.pop("query_id"): {name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)}


@pytest.mark.parametrize("run", GOLDEN["runs"])
def test_every_query_has_the_numbers_of_trec_eval(run: str, files: Files, retrieval: Retrieval, tmp_path: Path) -> None:
    path, recorded = tmp_path / "queries.csv", GOLDEN["scores"][run]
    found = retrieval("--qrels", files.qrels, "--run", getattr(files, run), "--measures", *GOLDEN["measures"],
                      "--per-query", str(path))  # fmt: skip
    queries = queries_of(path)
    assert list(queries) == ["007", "7", "q10", "q9", "none", "missing", "übung"]
    for name, scores in recorded.items():
        assert {query: row[name] for query, row in queries.items()} == pytest.approx(scores, abs=1e-9), name
        assert found["values"][name] == pytest.approx(sum(scores.values()) / len(scores), abs=1e-9), name
    counts = {name: found["counts"][name] for name in list(found["counts"])[:4]}
    assert counts == {"queries": 7, "queries_without_documents": int(run == "first"),
                      "queries_without_relevant_documents": 1, "queries_without_judgements": 1}  # fmt: skip


@pytest.mark.parametrize("run", GOLDEN["runs"])
def test_every_measure_is_its_definition(run: str, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    judgements, measures = Judgements(read_judgements(files.qrels)), parse_measures(PLAIN)
    found = score_run(run, judgements, read_run(getattr(files, run)), measures).columns
    monkeypatch.setattr("valor_gpu.report.retrieval.query_table", plain_table)
    expected = score_run(run, judgements, read_run(getattr(files, run)), measures).columns
    for name, column in expected.items():
        np.testing.assert_allclose(found[name], column, rtol=1e-12, atol=1e-15, err_msg=name)


def test_queries_of_both_are_those_of_trec_eval_without_c(files: Files, retrieval: Retrieval) -> None:
    found = retrieval("--qrels", files.qrels, "--run", files.first, "--measures", "AP", "--queries", "both")
    scores = {query: score for query, score in GOLDEN["scores"]["first"]["AP"].items() if query != "missing"}
    assert found["values"]["AP"] == pytest.approx(sum(scores.values()) / len(scores), abs=1e-9)
    assert found["counts"]["queries"] == 6 and found["counts"]["queries_without_documents"] == 0


def test_documents_of_equal_scores(retrieval: Retrieval, tmp_path: Path) -> None:
    qrels, run = tmp_path / "a.qrels", tmp_path / "a.run"
    qrels.write_text("1 0 a 1\n1 0 c -1\n")
    run.write_text("1 Q0 a 1 5 t\n1 Q0 b 2 5 t\n1 Q0 c 3 5 t\n")
    options = ("--qrels", str(qrels), "--run", str(run), "--measures", "RR", "Judged@3")
    by_document, by_file = retrieval(*options), retrieval(*options, "--ties", "file")
    assert by_document["values"] == {"RR": 1 / 3, "Judged@3": 1 / 3} and by_file["values"]["RR"] == 1
    assert by_document["counts"]["judged_documents"] == 1 and by_file["signature"]["ties"] == "file"


def test_the_report(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retrieval", "--qrels", files.qrels, "--run", files.first, "--intervals", "50"]) == OK
    shown = capsys.readouterr()
    assert shown.err == "" and [line.split()[0] for line in shown.out.splitlines()[:6]] == [
        "nDCG@10", "AP", "RR", "P@10", "R@100", "Judged@10",
    ]  # fmt: skip
    counts = "7 queries (1 without retrieved documents, 1 without a relevant document)"
    assert f"{counts}, 87 documents" in shown.out and "left out: 1 query without judgements" in shown.out
    assert "at 7 queries: 50 replicates of queries" in shown.out


def test_several_runs_are_compared_query_by_query(
    files: Files, retrieval: Retrieval, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--qrels", files.qrels, "--run", files.first, files.second, "--measures", "AP", "RR"]
    found = retrieval(*options, "--intervals", "50", "--per-query", str(tmp_path / "q.jsonl"))
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["run", "AP", "RR", "documents", "judged"] and "AP " in shown
    for run in ("first", "second"):
        single = retrieval("--qrels", files.qrels, "--run", getattr(files, run), "--measures", "AP", "RR",
                           "--intervals", "50")  # fmt: skip
        assert found["values"][run] == single["values"]
        assert found["intervals"][f"{run}/AP"]["low"] == pytest.approx(single["intervals"]["AP"]["low"], abs=0.05)
    difference = found["comparison"]["values"]["difference"]["AP"]
    assert difference == pytest.approx(found["values"]["second"]["AP"] - found["values"]["first"]["AP"], abs=1e-12)
    lines = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert len(lines) == 14 and lines[7] == {
        "run": "second",
        "query_id": "007",
        **{k: lines[7][k] for k in ("AP", "RR")},
    }
    assert found["counts"]["second/queries_without_documents"] == 0 and found["counts"]["runs"] == 2


def test_three_runs_are_compared_with_the_first(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third = tmp_path / "third.run"
    third.write_text(Path(files.first).read_text().replace(" 1 ", " 1 -"))
    runs = [files.first, files.second, str(third)]
    assert main(["retrieval", "--qrels", files.qrels, "--run", *runs, "--measures", "AP", "--names", "a,b,c"]) == OK
    shown = capsys.readouterr().out
    assert "b" in shown and "c" in shown and "c: 7 queries" in shown


def test_states_are_compared(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states = []
    for run, names in (("first", ("AP", "P@5")), ("second", ("P@5", "AP"))):
        states.append(str(tmp_path / f"{run}.state"))
        assert main(["retrieval", "--qrels", files.qrels, "--run", getattr(files, run), "--measures", *names,
                     "--save-state", states[-1], "--quiet"]) == OK  # fmt: skip
    assert load_state_file(states[0]).notes == ()
    assert main(["compare", *states, "--replicates", "50"]) == OK
    shown = capsys.readouterr().out
    assert "7 queries" in shown and "P@5" in shown
    Path(files.qrels).write_text(Path(files.qrels).read_text().replace("\nq9 0", "\nq9x 0"))
    other = str(tmp_path / "other.state")
    assert main(["retrieval", "--qrels", files.qrels, "--run", files.second, "--measures", "AP", "P@5", "--save-state",
                 other, "--quiet"]) == OK  # fmt: skip
    assert main(["compare", states[0], other]) == BAD_INPUT
    assert "must have the same queries" in capsys.readouterr().err


def test_other_judgements_of_a_query_are_another_truth(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [str(tmp_path / "a.state"), str(tmp_path / "b.state")]
    for state in states:
        assert main(["retrieval", "--qrels", files.qrels, "--run", files.first, "--save-state", state, "--quiet"]) == OK
        Path(files.qrels).write_text(Path(files.qrels).read_text() + "q9 0 another 1\n")
    assert main(["compare", *states]) == BAD_INPUT
    assert "judgements" in capsys.readouterr().err


def test_gates_and_verify(
    files: Files, retrieval: Retrieval, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--qrels", files.qrels, "--run", files.second, files.first]
    retrieval(*options, "--measures", "AP", "RBP(p=0.8)", "--measures", "P@5", "--intervals", "20")
    assert main(["verify", str(tmp_path / "out.json")]) == OK
    assert "is right" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "out.json"), "--run", files.first, files.second]) == FAILURE
    assert main(["verify", str(tmp_path / "out.json"), "--data", files.qrels]) == BAD_INPUT
    assert "which takes --qrels, --run" in capsys.readouterr().err
    gates = ["--measures", "AP", "RBP(p=0.8)", "--fail-under", "RBP(p=0.8)=0.99"]
    assert main(["retrieval", *options[:3], files.second, *gates]) == FAILURE
    assert "RBP(p=0.8) must be at least 0.99 but is" in capsys.readouterr().err
    assert main(["retrieval", *options, "--measures", "AP", "--fail-if", "first/AP < 1"]) == FAILURE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run", "none.run"], "--run must be a file but none.run does not exist"),
        (["--run", "FIRST", "FIRST"], "--run must be different files but"),
        (
            ["--run", "FIRST", "SECOND", "--names", "a"],
            "--names must be 2 different names, one for each --run, but are 'a'",
        ),
        (["--run", "FIRST", "SECOND", "--save-state", "s"], "--save-state must go with one --run but 2 are given"),
        (["--run", "FIRST", "--measures", "nDCG@0"], "must have a cutoff of at least 1"),
        (["--run", "FIRST", "--measures", "ndgc"], "measure must be one of P, R, AP"),
        (["--run", "FIRST", "--seed", "3"], "--seed needs --intervals N but that is missing"),
        (["--run", "FIRST", "--per-query", "QRELS"], "--per-query must be another file than --qrels"),
        (["--run", "FIRST", "SECOND", "--queries", "both"], "--queries both must leave the same queries of all runs"),
        (["--run", "QRELS"], "line 1 must have 6 columns"),
    ],
)
def test_errors(
    options: list[str], message: str, files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    paths = {"FIRST": files.first, "SECOND": files.second, "QRELS": files.qrels}
    assert main(["retrieval", "--qrels", files.qrels, *(paths.get(each, each) for each in options)]) == BAD_INPUT
    assert message in capsys.readouterr().err


def test_runs_without_a_judged_query(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "other.run"
    run.write_text("elsewhere Q0 d 1 1 t\n")
    options = ["retrieval", "--qrels", files.qrels, "--run", str(run), "--measures", "AP", "Judged@5"]
    assert main(options) == OK
    assert "7 queries (7 without retrieved documents" in capsys.readouterr().out
    assert main([*options, "--queries", "both"]) == BAD_INPUT
    assert "--run must have documents of a query of" in capsys.readouterr().err
    empty = tmp_path / "empty.qrels"
    empty.write_text("\n")
    assert main(["retrieval", "--qrels", str(empty), "--run", str(run)]) == BAD_INPUT
    assert "--qrels must have judgements but" in capsys.readouterr().err
    assert main(["retrieval", "--qrels", files.qrels, "--run", str(run), str(empty)]) == BAD_INPUT
    assert f"--run must have ranked documents but {empty} has none" in capsys.readouterr().err


def test_standard_input(files: Files, monkeypatch: pytest.MonkeyPatch, retrieval: Retrieval) -> None:
    for content in (Path(files.first).read_bytes(), b'{"query_id": "007", "doc_id": "doc-0", "score": 1}\n'):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert retrieval("--qrels", files.qrels, "--run", "-", "--measures", "P@5")["counts"]["documents"] in (87, 1)


@pytest.mark.slow
def test_neither_torch_nor_torchmetrics_is_loaded(files: Files) -> None:
    code = (
        "import sys; from valor_gpu.cli import main\n"
        f"main(['retrieval', '--qrels', {files.qrels!r}, '--run', {files.first!r}, '--intervals', '20'])\n"
        "assert not {'torch', 'torchmetrics'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
