"""``valor-gpu classify``: the numbers of scikit-learn, pictures, choices, and errors with their place."""

from __future__ import annotations

import csv
import gzip
import io
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from valor_gpu.classification.accuracy import Accuracy
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.report.files import write_file

DATA = Path(__file__).parent.parent / "examples/data/digits_predictions.csv"
DIGITS = ["--data", str(DATA), "--target", "digit", "--scores-prefix", "p_"]

Classify = Callable[..., int]
Numbers = dict[str, Any]


def digits() -> tuple[Any, Any]:
    """Targets ``[N]`` and scores ``[N, 10]`` of the bundled file."""
    table = np.loadtxt(DATA, delimiter=",", skiprows=1)
    return table[:, 0].astype(int), table[:, 1:]


@pytest.fixture
def classify(tmp_path: Path) -> Callable[..., Numbers]:
    """Run on rows written to a CSV file; gives the JSON."""

    def run(rows: list[dict[str, Any]], *options: str) -> Numbers:
        path, out = tmp_path / "data.csv", tmp_path / "out.json"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        assert main(["classify", "--data", str(path), "--target", "t", "--json", str(out), *options]) == OK
        found: Numbers = json.loads(out.read_text(), parse_constant=pytest.fail)
        return found

    return run


def shown_lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What was printed: number, and what follows, by name."""
    found = [line.partition("  ") for line in capsys.readouterr().out.splitlines()]
    return {name: number.strip() for name, _, number in found}


def expected_numbers(metrics: Any, average: str) -> Numbers:
    """scikit-learn's numbers of the digits."""
    target, scores = digits()
    found = scores.argmax(1)
    hot = target[:, None] == np.arange(10)
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(target, found, average=average)
    confidence, right = scores.max(1).astype(np.float32).astype(float), found == target
    bins = np.searchsorted(np.linspace(0, 1, 16, dtype=np.float32), scores.max(1).astype(np.float32), side="right")
    error = sum(abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in np.unique(bins)) / len(target)
    return {
        "accuracy": metrics.accuracy_score(target, found),
        "balanced_accuracy": metrics.balanced_accuracy_score(target, found),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "matthews_corrcoef": metrics.matthews_corrcoef(target, found),
        "cohen_kappa": metrics.cohen_kappa_score(target, found),
        "roc_auc": metrics.roc_auc_score(hot, scores, average=average),
        "average_precision": metrics.average_precision_score(hot, scores, average=average),
        "calibration_error": pytest.approx(error, abs=1e-6),  # confidences are rounded to 2^-24
    }


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_numbers_are_those_of_scikit_learn(average: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    out = tmp_path / "out.json"
    assert main(["classify", *DIGITS, "--average", average, "--json", str(out)]) == OK
    values = json.loads(out.read_text(), parse_constant=pytest.fail)["values"]
    expected = expected_numbers(metrics, average)
    for name, value in expected.items():
        assert values[name] == (pytest.approx(value, abs=1e-12) if isinstance(value, float) else value), name
    target, scores = digits()
    assert values["confusion_matrix"] == metrics.confusion_matrix(target, scores.argmax(1)).tolist()
    shown = capsys.readouterr()
    assert shown.err == "" and f"wrote {out}" in shown.out
    lines = dict(line.rsplit(maxsplit=1) for line in shown.out.split("\n\n")[0].splitlines())
    assert lines[f"ROC AUC, {average}"] == f"{expected['roc_auc']:.4f}"
    assert len(lines) == 10 and lines["accuracy"] == "0.9694"
    assert "1,797 samples (0 of them ignored), 10 classes (0 of them without samples)" in shown.out
    assert f"metric:classify|task:multiclass|average:{average}|thresholds:exact|weights:no" in shown.out


def test_numbers_of_each_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    assert main(["classify", *DIGITS, "--per-class"]) == OK
    target, scores = digits()
    hot = target[:, None] == np.arange(10)
    columns = [np.bincount(target), *metrics.precision_recall_fscore_support(target, scores.argmax(1))[:3]]
    columns += [f(hot, scores, average=None) for f in (metrics.roc_auc_score, metrics.average_precision_score)]
    table = [line.split() for line in capsys.readouterr().out.split("\n\n")[1].splitlines()]
    assert table[0] == ["class", "samples", "precision", "recall", "F1", "ROC", "AUC", "average", "precision"]
    for digit in range(10):
        assert table[1 + digit][:2] == [str(digit), str(columns[0][digit])]
        assert table[1 + digit][2:] == [f"{column[digit]:.4f}" for column in columns[1:]]


ROWS = [
    {"t": "cat", "cat": 0.7, "dog": 0.2, "owl": 0.1, "w": 2.0, "guess": "cat"},
    {"t": "dog", "cat": 0.3, "dog": 0.6, "owl": 0.1, "w": 0.5, "guess": "dog"},
    {"t": "cat", "cat": 0.4, "dog": 0.5, "owl": 0.1, "w": 1.0, "guess": "dog"},
    {"t": "?", "cat": 0.4, "dog": 0.5, "owl": 0.1, "w": 9.0, "guess": "owl"},
]
NAMED = ("--scores", "cat,dog,owl", "--ignore", "?")


def test_what_does_not_exist_is_null_with_a_reason(classify: Classify, capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = classify(ROWS, *NAMED, "--per-class")
    counts = {"samples": 4, "ignored": 1, "classes": 3, "classes_without_samples": 1}
    assert found["counts"] == counts and found["values"]["samples_per_class"] == {"cat": 2, "dog": 1, "owl": 0}
    assert found["values"]["accuracy"] == pytest.approx(2 / 3, abs=1e-15)
    assert found["values"]["roc_auc_per_class"]["cat"] == 1 and found["values"]["roc_auc_per_class"]["owl"] is None
    missing = {name for name in found["reasons"] if name.endswith("/owl")}
    assert missing == {f"{n}_per_class/owl" for n in ("precision", "recall", "f1", "roc_auc", "average_precision")}
    shown = capsys.readouterr().out
    assert "4 samples (1 of them ignored), 3 classes (1 of them without samples)" in shown
    assert next(line for line in shown.splitlines() if line.startswith("owl")).split()[1:] == ["0", *"-----"]


def test_weights_and_thresholds(classify: Classify) -> None:
    found: Any = classify(ROWS, *NAMED, "--weight", "w", "--thresholds", "3")
    assert found["values"]["accuracy"] == pytest.approx(2.5 / 3.5, abs=1e-15)
    assert found["values"]["samples_per_class"] == {"cat": 3, "dog": 0.5, "owl": 0}
    assert found["values"]["confusion_matrix"] == [[2, 1, 0], [0, 0.5, 0], [0, 0, 0]]
    assert (found["signature"]["thresholds"], found["signature"]["weights"]) == (3, True)
    # at 0, 0.5 and 1 the positives of weight 2 and 1 and the negative of 0.5 have cat in the bins 1, 0, 0
    assert found["values"]["roc_auc_per_class"]["cat"] == pytest.approx((2 + 1 / 2) / 3, abs=1e-15)


def test_predicted_classes_have_no_numbers_of_scores(classify: Classify, capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = classify(ROWS, "--pred", "guess", "--labels", "cat,dog,owl", "--ignore", "?")
    assert shown_lines(capsys)["ROC AUC, macro"] == "-  needs scores, not predicted classes"
    scored: Any = classify(ROWS, *NAMED)
    same = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "matthews_corrcoef", "cohen_kappa")
    assert all(found["values"][name] == scored["values"][name] is not None for name in same)
    absent = ("roc_auc", "average_precision", "calibration_error")
    assert [found["values"][name] for name in absent] == [None] * 3
    assert {found["reasons"][name] for name in absent} == {"needs scores, not predicted classes"}
    assert found["signature"]["thresholds"] == "none"


@pytest.mark.parametrize(("names", "labels"), [(("0", "1"), []), (("no", "yes"), ["--labels", "no,yes"])])
def test_one_column_of_scores(
    names: tuple[str, str], labels: list[str], classify: Classify, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, truth = [0.1, 0.4, 0.35, 0.8, 0.9], [0, 0, 1, 1, 1]
    rows = [{"t": names[k], "p": score} for k, score in zip(truth, scores)]
    found: Any = classify(rows, "--scores", "p", *labels)
    values = found["values"]
    assert values["roc_auc"] == pytest.approx(5 / 6, abs=1e-15) and values["accuracy"] == pytest.approx(0.8, abs=1e-15)
    assert (values["precision"], values["recall"]) == (1, pytest.approx(2 / 3, abs=1e-15))
    assert values["confusion_matrix"] == [[2, 0], [1, 2]]
    assert values["samples_per_class"] == dict(zip(names, (2, 3)))
    assert found["signature"]["task"] == "binary" and found["signature"]["average"] == "none"
    assert shown_lines(capsys)[f"precision of {names[1]}"] == "1.0000"


def test_logits_give_what_their_softmax_gives(classify: Classify) -> None:
    rng = np.random.default_rng(0)
    logits = np.round(rng.normal(size=(30, 3)) * 3, 3)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    found = []
    for scores in (logits, shares):
        rows = [{"t": n % 3, **{f"p{c}": repr(float(v)) for c, v in enumerate(row)}} for n, row in enumerate(scores)]
        found.append(classify(rows, "--scores-prefix", "p")["values"])  # type: ignore[index]
    for name, value in found[0].items():
        if isinstance(value, float):
            assert value == pytest.approx(found[1][name], abs=1e-6), name
    assert found[0]["confusion_matrix"] == found[1]["confusion_matrix"]


@pytest.mark.parametrize("options", [DIGITS, ["--scores", "p"]])
def test_pictures(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    if options is not DIGITS:
        (tmp_path / "a.csv").write_text("t,p\n0,0.25\n1,0.75\n1,0.125\n")
        options = [*options, "--data", str(tmp_path / "a.csv"), "--target", "t"]
    names = ("roc.png", "of_pr.png", "a-confusion.PNG", "b.reliability.svg")
    assert main(["classify", *options, "--plot", ", ".join(str(tmp_path / name) for name in names)]) == OK
    shown = capsys.readouterr().out
    for name in names:
        start = (tmp_path / name).read_bytes()[:6]
        assert start in (b"\x89PNG\r\n", b"<?xml ") and f"wrote {tmp_path / name}" in shown


def test_pictures_name_the_classes() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    from valor_gpu.inputs.predictions import Predictions
    from valor_gpu.report.classify import evaluate

    scores = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
    names = ("cat", "dog", "owl")
    evaluated = evaluate(Predictions(names, np.array([0, 1, 2, 2]), scores), "macro", None, "cpu", {"roc", "pr"})
    for picture, key in (("roc", "roc_auc"), ("pr", "average_precision")):
        axes = evaluated.picture(picture).plot(ax=figure.Figure().subplots(), names=names)
        each = evaluated.result.values[f"{key}_per_class"]
        *found, mean = [text.get_text() for text in axes.get_legend().get_texts()]
        assert found == [f"{area:.3f}  {name}" for name, area in each.items()]
        assert mean == f"{evaluated.result.values[key]:.3f}  mean of 3 classes"
    axes = evaluated.picture("confusion").plot(ax=figure.Figure().subplots(), names=names)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["cat", "dog", "owl"]
    axes = evaluated.picture("reliability").plot(ax=figure.Figure().subplots(), names=names)
    assert axes.get_xlabel() == "confidence"


BAD = [
    (["--data", "nothing.csv"], "--data must be a file but nothing.csv does not exist"),
    (["--json", "{folder}/data.csv"], "--json must be another file than --data but both are {folder}/data.csv"),
    (["--plot", "{folder}/curve.png"], "--plot needs names that end in roc, pr, confusion, reliability, as in"),
    (["--plot", "{folder}/roc.doc"], "--plot must end in one of "),
    (["--plot", "{folder}/roc.png,{folder}/roc.png"], "--plot must be another file than --plot"),
    (["--target", "truth"], "data.csv must have one column 'truth' but has no such column among t, a, b"),
    (["--weight", "t"], "data.csv, line 2, column 't' must hold a finite number but got 'a'"),
    (["--labels", "x,y"], "data.csv, line 2, column 't' must be one of the classes x, y but got 'a'"),
    (["--normalize", "true", "--plot", "{folder}/roc.png"], "--normalize needs a --plot whose name ends in confusion"),
    (["--ignore", "zzz"], "ignore must be a class of column 't' but got 'zzz': it holds a, b"),
    (["--device", "cuda:99"], "device must be available but got 'cuda:99'"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.csv"
    path.write_text("t,a,b\na,1,0\nb,0,1\n")
    arguments = ["classify", "--data", str(path), "--target", "t", "--scores", "a,b"]
    assert main([*arguments, *(option.format(folder=tmp_path) for option in options)]) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    assert shown.err.startswith("valor-gpu classify: error: ") and message.format(folder=tmp_path) in shown.err


@pytest.mark.parametrize("options", [["--scores", "a,b"], ["--scores-prefix", "a"], ["--pred", "a"]])
@pytest.mark.parametrize("labels", [[], ["--labels", "x,y"]])
def test_a_file_without_rows_is_rejected(
    options: list[str], labels: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "data.csv", tmp_path / "out.json"
    path.write_text("t,a,b\n")
    assert main(["classify", "--data", str(path), "--target", "t", "--json", str(out), *options, *labels]) == BAD_INPUT
    shown = capsys.readouterr()
    assert f"error: {path} must have at least one row of predictions but has none" in shown.err
    assert shown.out == "" and not out.exists()


def test_pictures_of_scores_need_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("t,a\nx,x\ny,x\n")
    arguments = ["classify", "--data", str(tmp_path / "a.csv"), "--target", "t", "--pred", "a"]
    assert main([*arguments, "--plot", str(tmp_path / "roc.png")]) == BAD_INPUT
    assert "roc.png needs --scores or --scores-prefix, not --pred" in capsys.readouterr().err
    assert main([*arguments, "--plot", str(tmp_path / "confusion.png"), "--quiet"]) == OK
    assert capsys.readouterr() == ("", "") and (tmp_path / "confusion.png").exists()


@pytest.mark.parametrize(
    "options",
    [[], ["--scores", "a", "--pred", "b"], ["--pred", "a", "--thresholds", "1"], ["--pred", "a", "--device", "gpu"]],
)
def test_bad_command_lines_exit_with_2(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["classify", "--data", "a", "--target", "t", *options])
    assert "usage: valor-gpu" in capsys.readouterr().err


def test_bad_scores_are_reported_with_their_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("t,a,b\na,1,0\nb,0,nan\n")
    arguments = ["classify", "--data", str(tmp_path / "a.csv"), "--target", "t", "--scores", "a,b"]
    assert main(arguments) == BAD_INPUT
    assert f"{tmp_path}/a.csv, line 3, column 'b' must hold a finite number but got nan" in capsys.readouterr().err


def test_other_failures_exit_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(Accuracy, "update", full)
    monkeypatch.setattr("valor_gpu.classification.array_numbers.count_labels", full)
    assert main(["classify", *DIGITS]) == FAILURE
    assert "Cannot allocate memory" in capsys.readouterr().err


def test_the_example_gives_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(DATA.parents[1] / "classification.py"), run_name="__main__")
    example = shown_lines(capsys)
    assert main(["classify", *DIGITS]) == OK
    command = shown_lines(capsys)
    pairs = {
        "accuracy": "accuracy", "macro F1": "F1, macro", "ROC AUC": "ROC AUC, macro",
        "average precision": "average precision, macro", "calibration error": "calibration error (ECE)",
    }  # fmt: skip
    assert {name: example[name] for name in pairs} == {name: command[theirs] for name, theirs in pairs.items()}


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_gives_the_numbers_of_the_file(
    packed: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["classify", *DIGITS]) == OK
    expected = capsys.readouterr().out
    data = gzip.compress(DATA.read_bytes()) if packed else DATA.read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert main(["classify", "--data", "-", *DIGITS[2:]]) == OK
    assert capsys.readouterr().out == expected


def test_a_column_of_scores_is_no_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", "--data", str(DATA), "--target", "digit", "--pred", "p_0"]) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == "" and "column 'p_0' must hold classes but got '0." in shown.err


def test_too_little_memory_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def grid(*_: object) -> None:
        raise MemoryError("Unable to allocate 745. GiB")

    monkeypatch.setattr(np, "linspace", grid)
    path = tmp_path / "a.csv"
    path.write_text("t,p_a,p_b\na,0.75,0.25\nb,0.25,0.75\n")
    found = main(["classify", "--data", str(path), "--target", "t", "--scores-prefix", "p_", "--thresholds", "99999"])
    assert found == FAILURE
    assert capsys.readouterr().err.endswith("error: not enough memory: Unable to allocate 745. GiB\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "full.json").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*full\.json'"):
        write_file(tmp_path / "full.json", b"x")
