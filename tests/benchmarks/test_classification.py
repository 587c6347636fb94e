"""The benchmark of classification: its data, every engine held against the reference, sizes, and its table."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import classification, interleave, machine, report, run, scores, worker
from benchmarks.baselines import OURS, Tool
from benchmarks.classification_baselines import TOOLS, counts_at, curve_margins
from benchmarks.summary import summary
from benchmarks.verify import RULES, Outcome, verdict

SMALL = scores.CASES["1k"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> scores.Files:
    return scores.cached(SMALL, SMALL.quick[0], 0, tmp_path_factory.mktemp("bench_data"))


def test_scores_are_seeded_normalised_and_of_every_class() -> None:
    made, again, other = (scores.make(5_000, 7, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(made, again)) and not np.array_equal(made[0], other[0])
    assert made[0].dtype == np.float32 and np.allclose(made[0].sum(1), 1, atol=1e-5)
    assert np.bincount(made[1]).tolist() == [715, 715, 714, 714, 714, 714, 714]
    assert 0.7 < (made[0].argmax(1) == made[1]).mean() < 0.95


def test_files_are_made_once(files: scores.Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "make", None)
    assert scores.cached(SMALL, SMALL.quick[0], 0, files.scores.parent) == files
    assert np.load(files.scores, mmap_mode="r").shape == SMALL.quick


def test_counts_of_numpy_are_those_of_the_definition() -> None:
    made, target = scores.make(40, 4)
    made[3, 1], made[4, 2] = 0.5, 1.0
    thresholds = np.array([0.0, 0.25, 0.5, 1.0], np.float32)
    truth = target[:, None] == np.arange(4)
    reached = made >= thresholds[:, None, None]
    tp, fp = counts_at(thresholds, made, target)
    assert np.array_equal(tp, (reached & truth).sum(1)) and np.array_equal(fp, (reached & ~truth).sum(1))


def test_margins_show_every_entry() -> None:
    rng = np.random.default_rng(0)
    precision, recall = rng.random((2, 5, 4))
    whole = curve_margins(precision, recall)
    assert len(whole.stats) == 2 * (5 + 4)
    precision[2, 3] += 0.125
    assert np.sum(np.abs(np.subtract(curve_margins(precision, recall).stats, whole.stats)) > 1e-9) == 2
    precision[1, 1] = np.nan
    assert curve_margins(precision, recall).digest != whole.digest


@pytest.mark.parametrize("work", TOOLS)
def test_every_engine_agrees_with_the_reference(work: str, files: scores.Files) -> None:
    outcomes = {}
    for tool in TOOLS[work]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of other engines
            measured = worker.measure(tool, files)
        if "missing" not in measured:
            assert sum(measured["phases"].values()) <= measured["seconds"]
            outcomes[tool.name] = Outcome(**measured["outcome"])
    reference = TOOLS[work][2].name
    if reference not in outcomes:
        pytest.skip(f"{reference} is not installed")
    judged = {t.name: verdict(RULES[t.rule], outcomes[t.name], outcomes[reference], None) for t in TOOLS[work]
              if t.name in outcomes}  # fmt: skip
    assert {name: one.text for name, one in judged.items() if not one.agrees} == {}
    assert OURS in judged


def test_every_work_has_its_text() -> None:
    assert list(TOOLS) == list(classification.WORKS)


@pytest.mark.slow
def test_a_run_in_a_process_of_its_own(files: scores.Files) -> None:
    plan = interleave.Plan(SMALL, SMALL.quick[0], files.scores.parent, 1, 1, 1, suite="classification")
    measured = interleave.measure_once(TOOLS["top-1"][2], "top-1", plan)
    if "missing" not in measured:
        assert {"seconds", "peak_mb", "load"} <= set(measured) and len(measured["outcome"]["stats"]) == 5


# ------------------------------------------------------------------------------------------------- sizes, report


def tool(name: str, most: int | None = None) -> Tool:
    return Tool(name, name, "float64", lambda: lambda files: lambda clock: lambda: Outcome([]), most=most)


def measured(seconds: float, number: float = 0.5) -> dict[str, Any]:
    numbers = {"cpu_seconds": seconds, "peak_mb": 10 * seconds, "resident_mb": 1.0, "import_seconds": 1.0, "load": 0.1}
    return {"seconds": seconds, "phases": {}, **numbers, "outcome": Outcome([number])._asdict()}


ENGINES = (tool(OURS), tool("wrong"), tool("reference"), tool("slow", most=1_000))


def compared(monkeypatch: pytest.MonkeyPatch, case: scores.ScoreCase, size: int) -> list[dict[str, Any]]:
    """Rows of the works top-1 and top-5 of invented engines."""
    numbers = {OURS: (0.1, 0.5), "wrong": (0.1, 0.6), "reference": (0.4, 0.5), "slow": (50.0, 0.5)}

    def take(work: str, tools: Any, plan: interleave.Plan) -> interleave.Measured:
        return {one.name: [measured(*numbers[one.name])] for one in tools}

    monkeypatch.setattr(classification, "interleaved_runs", take)
    monkeypatch.setattr(classification, "TOOLS", {"top-1": ENGINES, "top-5": ENGINES[:3]})
    plan = interleave.Plan(case, size, Path("unused"), 2, 5, 1, suite="classification")
    return [row for work in ("top-1", "top-5") for row in classification.compare(work, plan)]


def test_engines_beyond_their_largest_size_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = compared(monkeypatch, SMALL, 1_000)
    assert [row["status"] for row in rows[:4]] == ["ok", "mismatch", "ok", "ok"]
    assert rows[0]["parity"]["first_number"] == 0.5 and rows[3]["times_ours"] == 500
    rows = compared(monkeypatch, scores.CASES["20k"], 20_000)
    assert [row["status"] for row in rows[:4]] == ["ok", "mismatch", "ok", "not run"]
    assert {(row["rows"], row["classes"]) for row in rows} == {(20_000, 1_000)}


def test_small_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {row["classes"] for row in compared(monkeypatch, SMALL, SMALL.quick[0])} == {SMALL.quick[1]}


def stored(rows: list[dict[str, Any]], date: str, kind: str = "classification") -> dict[str, Any]:
    about = {**machine.describe(["torch"], "0123456789abcdef"), "date": date}
    return {"kind": kind, **about, "quick": False, "threads": 2, "repeats": 5, "slow_repeats": 1, "rows": rows}


def test_report_has_a_section_of_classification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = scores.CASES["20k"]
    rows = [*compared(monkeypatch, SMALL, 1_000), *compared(monkeypatch, large, 20_000)]
    (tmp_path / "a.json").write_text(json.dumps(stored(rows, "2030-01-01")))
    (tmp_path / "b.json").write_text(json.dumps({**stored([], "2030-01-01"), "kind": "detection"}))
    text = report.page(report.collected(tmp_path), None)
    tables = text.split("## Classification\n\n")[1].split("\n\n")
    first = f"| {classification.WORKS['top-1']} | **0.100 s**, 1 MB | mismatch | 0.400 s (4.0x), 4 MB (4.0x) |"
    assert tables[0].splitlines()[0] == "| 20,000 samples, 1,000 classes | valor_gpu | wrong | reference |"
    assert tables[0].splitlines()[2] == first and len(tables[0].splitlines()) == 4
    assert tables[1].splitlines()[0] == "| 1,000 samples, 1,000 classes | valor_gpu | wrong | reference | slow |"
    assert tables[1].splitlines()[2] == f"{first} 50 s (500.0x), 500 MB (500.0x) |"
    assert tables[2].startswith("1,000 x 1,000; 20,000 x 1,000: medians of 5 runs") and "scikit-learn" in tables[2]
    assert summary(report.collected(tmp_path)).count("20,000 x 1,000") == 1


def test_command_line(
    files: scores.Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.parse(["classification", "--case", "lvis"])
    assert "--case must be one of 1k, 20k, 200k or all of classification but is lvis" in capsys.readouterr().err
    compared(monkeypatch, SMALL, 1_000)  # leaves the invented engines in place
    arguments = ["classification", "--case", "1k", "--quick", "--data", str(files.scores.parent)]
    assert run.main([*arguments, "--json", str(tmp_path / "a.json")]) == 0
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["kind"] == "classification" and {row["rows"] for row in result["rows"]} == {SMALL.quick[0]}
    assert "| 200 samples, 20 classes | valor_gpu |" in capsys.readouterr().out
    wrong: interleave.Measured = {OURS: [measured(1.0, 0.6)], "wrong": [measured(1.0)], "reference": [measured(1.0)]}
    monkeypatch.setattr(classification, "interleaved_runs", lambda *_: wrong)
    assert run.main(arguments) == 1
