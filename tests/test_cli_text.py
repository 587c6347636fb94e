"""``valor-gpu text``: the numbers of the functions, files of lines and tables, errors with their place."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.text import corpus_bleu, edit_counts, rouge_scores, sentence_bleu

PREDICTIONS = ["The red cat sat.", "Paris is the capital of France", "", "it rained all day — twice"]
FIRST = ["the cat sat down", "The capital of France is Paris", "nothing", "it rained all day — twice"]
SECOND = ["a red cat", "Paris is the capital", "", "rain"]
FAILED = {"missing_field": 1, "invalid_field": 1}
METRICS = "rouge,bleu,valor_bleu,word_error_rate"

Text = Callable[..., dict[str, Any]]


def lines(path: Path, texts: list[str], end: str = "\n") -> str:
    path.write_bytes("".join(text + end for text in texts).encode())
    return str(path)


@pytest.fixture
def text(tmp_path: Path) -> Text:
    """Run the command; gives the JSON."""

    def run(*options: str) -> dict[str, Any]:
        out = tmp_path / "out.json"
        assert main(["text", *options, "--json", str(out)]) == OK
        found: dict[str, Any] = json.loads(out.read_text(), parse_constant=pytest.fail)
        return found

    return run


def expected_values(references: list[Any]) -> dict[str, float]:
    rouge = rouge_scores(PREDICTIONS, references, ["rouge1", "rouge2", "rougeL"])
    edits = edit_counts(PREDICTIONS, references)
    return {
        **{f"mean_{kind}": math.fsum(scores.fmeasure) / 4 for kind, scores in rouge.items()},
        "mean_valor_bleu": math.fsum(sentence_bleu(PREDICTIONS, references)) / 4,
        "corpus_bleu": corpus_bleu(PREDICTIONS, references).value,
        "word_error_rate": edits.edits.sum() / edits.reference_lengths.sum(),
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_numbers_of_lines_are_those_of_the_functions(end: str, text: Text, tmp_path: Path) -> None:
    files = [lines(tmp_path / "p.txt", PREDICTIONS, end), lines(tmp_path / "r.txt", FIRST, end)]
    found = text("--predictions", files[0], "--references", files[1], "--metrics", METRICS)
    for name, value in expected_values(FIRST).items():
        assert found["values"][name] == pytest.approx(value, rel=1e-12), name
    assert list(found["values"])[3:5] == ["mean_bleu", "corpus_bleu"]
    assert found["counts"] == {"rows": 4, "rows_with_several_references": 0, "unreadable_rows": 0}
    assert found["inputs"]["references"]["bytes"] == len((tmp_path / "r.txt").read_bytes())


def test_several_files_are_several_references(text: Text, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [lines(tmp_path / name, texts) for name, texts in (("p", PREDICTIONS), ("a", FIRST), ("b", SECOND))]
    found = text("--predictions", files[0], "--references", *files[1:], "--metrics", METRICS)
    for name, value in expected_values(list(zip(FIRST, SECOND))).items():
        assert found["values"][name] == pytest.approx(value, rel=1e-12), name
    assert sorted(found["inputs"]) == ["predictions", "references", "references_2"]
    shown = capsys.readouterr()
    assert shown.err == "" and "4 rows (4 of them with several references)" in shown.out
    assert f"mean_rouge1 {found['values']['mean_rouge1']:12.4f}" in shown.out
    assert shown.out.splitlines()[-1] == f"wrote {tmp_path / 'out.json'}"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "jsonl.gz", "parquet"])
def test_tables_have_the_numbers_of_lines(kind: str, text: Text, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{kind}"
    rows = [{"id": n, "response": p, "y_test": r} for n, (p, r) in enumerate(zip(PREDICTIONS, FIRST))]
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    elif kind == "csv":
        rows[2]["response"] = " "  # an empty cell is missing
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "response", "y_test"])
            writer.writeheader()
            writer.writerows(rows)
    else:
        content = "\n".join(map(json.dumps, rows)).encode()
        path.write_bytes(gzip.compress(content) if kind.endswith("gz") else content)
    by_alias = text("--predictions", str(path), "--metrics", METRICS)
    by_name = text("--predictions", str(path), "--references", str(path), "--prediction-column", "response",
                   "--reference-column", "y_test", "--metrics", METRICS)  # fmt: skip
    assert by_alias["values"] == by_name["values"]
    for name, value in expected_values(FIRST).items():
        assert by_alias["values"][name] == pytest.approx(value, rel=1e-12), name


def test_several_columns_and_lists_are_references(text: Text, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"answer": p, "a": a, "b": [b, "other"]} for p, a, b in zip(PREDICTIONS, FIRST, SECOND)]
    rows[3]["b"] = None  # a row may have fewer references
    path.write_text("\n".join(map(json.dumps, rows)))
    found = text("--predictions", str(path), "--reference-column", "a,b", "--metrics", "rouge1,corpus_bleu")
    references = [[a, b, "other"] for a, b in zip(FIRST[:3], SECOND)] + [[FIRST[3]]]
    expected = math.fsum(rouge_scores(PREDICTIONS, references, ["rouge1"])["rouge1"].fmeasure) / 4
    assert found["values"]["mean_rouge1"] == pytest.approx(expected, rel=1e-12)
    assert found["values"]["corpus_bleu"] == pytest.approx(corpus_bleu(PREDICTIONS, references).value, rel=1e-12)


def test_short_names(text: Text, tmp_path: Path) -> None:
    files = [lines(tmp_path / "p.txt", PREDICTIONS), lines(tmp_path / "r.txt", FIRST)]
    found = text("--predictions", files[0], "--references", files[1], "--metrics", "chrf,wer,cer,bleu")
    assert list(found["values"]) == ["corpus_chrf", "word_error_rate", "char_error_rate", "mean_bleu", "corpus_bleu"]


def test_texts_given_directly(text: Text) -> None:
    found = text("--prediction", "A red cat", "--reference", "a cat", "--reference", "A RED CAT", "--metrics",
                 "rouge1,exact_match", "--param", "exact_match.ignore_case=true")  # fmt: skip
    assert found["values"] == {"mean_rouge1": 1.0, "mean_exact_match": 1.0}
    assert found["evaluators"]["exact_match"]["parameters"] == {"ignore_case": True}
    assert found["signature"]["parameters"] == ["exact_match.ignore_case=true"] and found["inputs"] == {}


def test_rows_without_a_score_are_counted_and_listed(
    text: Text, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, table = tmp_path / "rows.jsonl", tmp_path / "rows.csv"
    path.write_text(
        '{"answer": "a b", "ground_truth": "a b"}\n{"answer": "c"}\n{"answer": 3.5, "ground_truth": "x"}\n[]\n'
    )
    found = text("--predictions", str(path), "--metrics", "rouge1,corpus_bleu", "--per-row", str(table))
    assert found["values"]["mean_rouge1"] == 1.0 and found["counts"]["rows"] == 4
    assert found["failed"] == {name: FAILED for name in ("rouge1", "corpus_bleu")}
    (unreadable,) = found["unreadable"]
    assert unreadable == f"{path}, line 4 must be a JSON object but is a list"
    shown = capsys.readouterr()
    assert shown.err == f"valor-gpu text: unreadable: {unreadable}\n"
    assert "4 rows, 1 unreadable row, 1 row without rouge1: missing_field, 1 row without rouge1: inv" in shown.out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["rouge1"] for row in rows] == ["1.0", "", "", ""]
    assert rows[1]["error"] == "rouge1: missing ground_truth; corpus_bleu: missing ground_truth"
    assert rows[2]["error"].startswith("rouge1: answer must be text but is float")
    assert rows[3]["error"] == unreadable


def test_a_number_that_does_not_exist_has_a_reason(text: Text, capsys: pytest.CaptureFixture[str]) -> None:
    found = text("--prediction", "a", "--reference", "", "--metrics", "word_error_rate")
    assert found["values"] == {"word_error_rate": None}
    assert found["reasons"] == {"word_error_rate": "the ground truths have no word"}
    assert "word_error_rate        -  the ground truths have no word" in capsys.readouterr().out


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: Text) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(b"a b\nc\n"))))
    found = text("--predictions", "-", "--references", lines(tmp_path / "r", ["a b", "d"]), "--metrics", "exact_match")
    assert found["values"] == {"mean_exact_match": 0.5}
    assert found["inputs"]["predictions"] == {"path": "-", "bytes": None, "sha256": None}


BAD = [
    (["--references", "{f}/none"], "--references must be a file but {f}/none does not exist"),
    (["--references", "{f}"], "--references must be a file but {f} is a folder"),
    (["--references", "{f}/short"], "--references must have as many rows as {f}/p.txt (2) but {f}/short has 1"),
    (["--references", "{f}/long"], "--references must have as many rows as {f}/p.txt (2) but {f}/long has 3"),
    (["--references", "{f}/p.txt"], "--references must be other texts than --predictions but both are {f}/p.txt"),
    (["--references", "{f}/r", "{f}/r"], "--references must be different but {f}/r is given twice"),
    (
        ["--references", "{f}/t.csv"],
        "--references must name the column of its texts but {f}/t.csv has the columns a, b",
    ),
    (["--references", "{f}/t.json"], "{f}/t.json, line 1 must be a JSON object but is a list"),
    (["--references", "{f}/t.csv", "--reference-column", "bb"], "column of {f}/t.csv but 'bb' is none of a, b"),
    (["--references", "{f}/r", "--metrics", "roug"], "but got 'roug'; did you mean"),
    (["--references", "{f}/r", "--metrics", "meteor"], "--metrics meteor needs a WordNet 3 database: give --param met"),
    (["--references", "{f}/r", "--metrics", "gpt_fluency"], "but got 'gpt_fluency', which is for valor-gpu eval run"),
    (["--references", "{f}/r", "--param", "rouge2.x=1"], "--param must be of a metric of --metrics but rouge2 is none"),
    (["--references", "{f}/r", "--param", "x=1"], "--param must be METRIC.NAME=VALUE but got 'x' as METRIC.NAME"),
    (["--references", "{f}/r", "--json", "{f}/none/x"], "--json must lie in a folder that exists but"),
    (["--references", "{f}/r", "--json", "{f}/r"], "--json must be another file than --references but both are {f}/r"),
    (["--references", "{f}/r", "--per-row", "{f}/p.txt"], "--per-row must be another file than --predictions but both"),
    (["--reference", "x"], "--reference must go with --prediction but --predictions is given"),
    ([], "--references must be given for --predictions of one text per line but is not"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, texts in (("p.txt", ["a", "b"]), ("r", ["a", "c"]), ("short", ["a"]), ("long", ["a", "b", "c"])):
        lines(tmp_path / name, texts)
    (tmp_path / "t.json").write_text('["a", "b"]')
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    given = ["--predictions", str(tmp_path / "p.txt"), "--metrics", "rouge1"]
    assert main(["text", *given, *(option.format(f=tmp_path) for option in options)]) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    assert shown.err.startswith("valor-gpu text: error: ") and message.format(f=tmp_path) in shown.err


def test_a_failed_command_leaves_the_old_table(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("old")
    files = [lines(tmp_path / "p", ["a"]), lines(tmp_path / "r", ["a", "b"])]
    options = ["--metrics", "rouge1", "--per-row", str(table)]
    assert main(["text", "--predictions", files[0], "--references", files[1], *options]) == BAD_INPUT
    assert table.read_text() == "old" and sorted(path.name for path in tmp_path.iterdir()) == ["p", "r", "rows.csv"]


def test_neither_torch_nor_pandas_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("answer,ground_truth\na,b\n")
    arguments = ["text", "--predictions", str(path), "--metrics", "f1_score,rouge,bleu,gleu", "--json", "-"]
    program = f"import sys\nfrom valor_gpu.cli import main\nassert main({arguments!r}) == 0\n"
    program += "print({'torch', 'pandas', 'sklearn', 'scipy'} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


def test_a_tokenizer_for_all_of_rouge(text: Text) -> None:
    pair = ["--prediction", "тест привет", "--reference", "привет тест"]
    found = text(*pair, "--metrics", "rouge")
    assert found["values"] == dict.fromkeys(("mean_rouge1", "mean_rouge2", "mean_rougeL"))
    assert "--param rouge1.tokenizer=unicode" in found["reasons"]["mean_rouge1"]
    chosen = [
        "--metrics",
        "rouge,rougeL",
        "--param",
        "rouge.tokenizer=unicode",
        "--param",
        "rouge2.tokenizer=characters",
    ]
    found = text(*pair, *chosen)
    assert found["values"]["mean_rouge1"] == 1 and found["values"]["mean_rougeL"] == 0.5
    assert 0 < found["values"]["mean_rouge2"] < 1


def test_intervals_are_shown_with_what_they_are_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = lines(tmp_path / "predictions.txt", PREDICTIONS), lines(tmp_path / "references.txt", FIRST)
    options = ["text", "--predictions", paths[0], "--references", paths[1], "--metrics", "f1_score"]
    assert main([*options, "--intervals", "20", "--seed", "4"]) == OK
    shown = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"mean_f1_score +0\.6667  \(0\.0000 to 1\.0000\)", shown[0]), "ends stay within the scale"
    assert shown[3].startswith("bias of mean_f1_score by the bootstrap ")
    assert shown[4] == ("95% intervals of E[mean_f1_score] at 4 rows: 20 replicates of rows, method skewed, seed 4")


def test_intervals_say_what_they_are_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers, truth = tmp_path / "a.txt", tmp_path / "t.txt"
    answers.write_text("a b\nc d\ne\nf g\n")
    truth.write_text("a b\nc\nx\nf h\n")
    files = ["--predictions", str(answers), "--references", str(truth), "--metrics", "rouge1"]
    assert main(["text", *files, "--intervals", "30", "--confidence", "0.9", "--seed", "5"]) == OK
    shown = capsys.readouterr().out
    assert " (0." in shown.splitlines()[0] or " (-0." in shown.splitlines()[0]
    assert "\n90% intervals of E[mean_rouge1] at 4 rows: 30 replicates of rows, method " in shown
