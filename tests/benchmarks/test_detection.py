"""Benchmarks give no number without parity, say what is missing, and run, CUDA calls apart, on the CPU."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import detection, gpu_table, interleave, machine, report, run, worker
from benchmarks.baselines import OURS, TOOLS, Clock, Tool
from benchmarks.summary import summary
from benchmarks.verify import REFERENCE, RULES, STATS, Outcome, digest, verdict
from testing import datasets, formats, registry
from testing.parity import differences
from testing.registry import ROWS
from valor_gpu.inputs.coco import read_ground_truth, read_results
from valor_gpu.ops import backends

ROOT = Path(__file__).parents[2]
VAL, LVIS = datasets.CASES["val2017"], datasets.CASES["lvis"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scene() -> datasets.BoxDataset:
    return datasets.make(VAL, 30)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> formats.Files:
    return formats.cached(VAL, 30, folder=tmp_path_factory.mktemp("bench_data"))


# ----------------------------------------------------------------------------------------------------------- datasets


@pytest.mark.parametrize("case", [VAL, LVIS, replace(datasets.CASES["objects365"], images=200)])
def test_datasets_are_seeded_ordered_and_within_their_images(case: datasets.Case) -> None:
    images = min(case.images, 25)
    scene, again, other = (datasets.make(case, images, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(vars(scene).values(), vars(again).values()))
    assert not np.array_equal(scene.dt_score, other.dt_score)
    assert len(scene.image_ids) == images and (np.diff(scene.image_ids) > 0).all()
    assert (np.diff(scene.gt_image) >= 0).all() and (np.diff(scene.dt_image) >= 0).all()
    counts = np.bincount(scene.dt_image, minlength=images)
    assert counts.max() == case.limit and counts.mean() > 0.9 * case.limit
    falling = np.diff(scene.dt_score) <= 0
    assert falling[np.diff(scene.dt_image) == 0].all()
    ends = scene.dt_box[:, :2] + scene.dt_box[:, 2:]
    assert (scene.dt_box[:, :2] >= 0).all() and (ends <= scene.sizes[scene.dt_image] + 0.01).all()
    assert len(np.unique(scene.dt_score)) < len(scene.dt_score)  # there are ties


def test_ground_truths_of_val2017_are_the_real_ones() -> None:
    real = datasets._real()
    assert (len(real.image_ids), len(real.box), len(real.category_ids)) == (5_000, 36_781, 80)


def test_files_hold_the_dataset(files: formats.Files, scene: datasets.BoxDataset) -> None:
    loaded = formats.load(files)
    assert all(np.array_equal(a, b) for a, b in zip(vars(scene).values(), vars(loaded).values()))
    truth, found = read_ground_truth(files.gt).annotations, read_results(files.dt)
    assert np.array_equal(truth.bbox, scene.gt_box) and np.array_equal(truth.area, scene.gt_area)
    assert np.array_equal(truth.iscrowd, scene.gt_crowd)
    assert np.array_equal(found.bbox, scene.dt_box) and np.array_equal(found.score, scene.dt_score)
    assert np.array_equal(found.image_id, scene.image_ids[scene.dt_image])
    assert np.array_equal(found.category_id, scene.category_ids[scene.dt_category])


def test_files_are_made_once(files: formats.Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "make", None)
    assert formats.cached(VAL, 30, folder=files.arrays.parent) == files


def test_all_formats_of_tensors_hold_the_same_numbers(scene: datasets.BoxDataset) -> None:
    preds, target = formats.image_tensors(scene)
    packed, packed_target = formats.padded_tensors(scene)
    narrow = formats.through_float32(scene)
    boxes = torch.cat([item["boxes"] for item in preds])
    sides = torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1).double()
    assert np.array_equal(sides.numpy(), narrow.dt_box)
    for i, (found, truth) in enumerate(zip(preds, target)):
        assert int(truth["image_id"]) == scene.image_ids[i]
        for name, rows in found.items():
            assert torch.equal(packed[name][i, : packed["counts"][i]], rows)
        for name in ("boxes", "labels", "iscrowd"):
            assert torch.equal(packed_target[name][i, : packed_target["counts"][i]], truth[name])


# ------------------------------------------------------------------------------------------------------------- parity


def test_every_op_has_a_row() -> None:
    assert sorted(ROWS) == [op.name for op in backends()]


@pytest.mark.slow  # as those of tests/ops
@pytest.mark.parametrize("name", ROWS)
def test_examples_agree(name: str, device: torch.device) -> None:
    row = ROWS[name]
    assert [text for e in row.examples(True) if (text := registry.disagreement(row, e, device))] == []


@pytest.mark.parametrize("name", ROWS)
def test_rows_run_at_scale(name: str, scene: datasets.BoxDataset) -> None:
    arguments = ROWS[name].load(scene) if name != "pack_masks" else (torch.zeros(2, 3, 4, dtype=torch.bool),)
    assert registry.moved_bytes(arguments, registry.call(name)(*arguments)) > 0


def test_a_wrong_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS["count_ground_truths"]
    example = next(e for e in row.examples(True) if e.name == "33 ground truths")
    op = registry.find(row.op)
    wrong = replace(op, reference=lambda *args: op.reference(*args) + 1)
    monkeypatch.setattr(registry, "find", lambda _: wrong)
    assert "against the reference: output 0: 20 of 20 values" in registry.disagreement(row, example, CPU)


@pytest.mark.parametrize(
    ("got", "expected", "text"),
    [
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]), ""),
        (torch.tensor([0.0]), torch.tensor([-0.0]), "1 of 1 values, first at [0]: 0.0 instead of -0.0"),
        (torch.tensor([1.0]), torch.tensor([math.nan]), "1.0 instead of nan"),
        (torch.tensor([1]), torch.tensor([1], dtype=torch.int32), "torch.int64 [1] instead of torch.int32 [1]"),
        (torch.zeros(0), torch.zeros(0, 4), "[0] instead of torch.float32 [0, 4]"),
        ({"a": torch.zeros(1)}, {"a": torch.zeros(1), "b": 1}, "instead of"),
        ([torch.zeros(2), 3], [torch.zeros(2), 4], "output 1: 3 instead of 4"),
    ],
)
def test_differences(got: Any, expected: Any, text: str) -> None:
    assert (text in differences(got, expected)) if text else differences(got, expected) == ""


NUMBERS = [0.5] * len(STATS)
NEAR = [0.5 + 1e-10, *NUMBERS[1:]]


@pytest.mark.parametrize(
    ("rule", "got", "agrees"),
    [
        ("bits", Outcome(NUMBERS, "a"), True),
        ("bits", Outcome(NUMBERS, "b"), False),
        ("bits", Outcome(NEAR, "a"), False),
        ("rounding", Outcome(NEAR, "b"), True),
        ("rounding", Outcome([0.5 + 1e-8, *NUMBERS[1:]]), False),
        ("rounding", Outcome(NUMBERS[1:]), False),
        ("rounding", Outcome([math.nan, *NUMBERS[1:]]), False),
        ("float32 grids", Outcome([0.4] * 12), True),
        ("float32 grids", Outcome(NUMBERS), False),
    ],
)
def test_rules(rule: str, got: Outcome, agrees: bool) -> None:
    ours = Outcome(NUMBERS, "a", [0.4] * 12)
    assert verdict(RULES[rule], got, Outcome(NUMBERS, "a"), ours).agrees is agrees


def test_digest_leaves_out_classes_without_ground_truth() -> None:
    precision, recall = np.full((2, 3, 3, 1, 1), -1.0), np.full((2, 3, 1, 1), -1.0)
    precision[:, :, 1], recall[:, 1] = 0.5, 0.25
    one = digest(precision, recall, [7, 8, 9])
    assert one == digest(precision[:, :, 1:], recall[:, 1:], [8, 9])
    assert one != digest(precision, recall, [7, 6, 9]) and one != digest(precision + 1e-16 * 4, recall, [7, 8, 9])


# ------------------------------------------------------------------------------------------------------- measurements


def test_our_paths_equal_pycocotools(files: formats.Files, capsys: pytest.CaptureFixture[str]) -> None:
    for path, tools in TOOLS.items():
        got = {t.name: worker.measure(t, files) for t in tools if t.name in (OURS, REFERENCE)}
        outcomes = {name: Outcome(**measured["outcome"]) for name, measured in got.items()}
        judged = verdict(RULES["bits"], outcomes[OURS], outcomes[REFERENCE], None)
        assert judged.agrees, f"{path}: {judged.text}"
        assert sum(got[OURS]["phases"].values()) <= got[OURS]["seconds"]


def test_a_run_in_a_process_of_its_own(files: formats.Files) -> None:
    plan = interleave.Plan(VAL, 30, files.arrays.parent, threads=1, repeats=1, slow_repeats=1)
    measured = interleave.measure_once(TOOLS["files"][0], "files", plan)
    assert {"seconds", "cpu_seconds", "peak_mb", "resident_mb", "import_seconds", "load"} <= set(measured)
    assert 0 <= measured["peak_mb"] < 2_000 and len(measured["outcome"]["stats"]) == len(STATS)


def test_a_process_that_fails_is_reported(tmp_path: Path) -> None:
    plan = interleave.Plan(VAL, 0, tmp_path / "no" / "such", 1, 1, 1)
    absent = Tool("no such tool", "", "bits", lambda: pytest.fail("never started here"))
    assert "exit code 1: StopIteration" in interleave.measure_once(absent, "files", plan)["failed"]


def test_a_missing_engine_is_reported(files: formats.Files) -> None:
    def start() -> Any:
        raise ImportError("No module named 'engine'\nsecond line")

    assert worker.measure(Tool("x", "x", "bits", start), files) == {"missing": "No module named 'engine'"}


def tool(name: str, slow: bool = False) -> Tool:
    return Tool(name, name, "bits", lambda: lambda files: lambda clock: lambda: Outcome([]), slow)


def measured(seconds: float, text: str = "a", **more: Any) -> dict[str, Any]:
    numbers = {"cpu_seconds": seconds, "peak_mb": 10 * seconds, "resident_mb": 1.0, "import_seconds": 1.0, "load": 0.1}
    outcome = Outcome(NUMBERS, text, NUMBERS)._asdict()
    return {"seconds": seconds, "phases": {"p": seconds}, **numbers, "outcome": outcome, **more}


PLAN = interleave.Plan(VAL, 200, Path("unused"), threads=2, repeats=4, slow_repeats=2)


def test_engines_interleaved_runs_forwards_and_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def once(tool: Tool, path: str, plan: interleave.Plan) -> dict[str, Any]:
        seen.append(tool.name)
        return {"missing": "gone"} if tool.name == "c" else measured(1.0)

    monkeypatch.setattr(interleave, "measure_once", once)
    runs = interleave.interleaved_runs("files", [tool("a"), tool("b", slow=True), tool("c")], PLAN)
    assert seen == ["a", "b", "c", "b", "a", "a", "a"]
    assert {name: len(found) for name, found in runs.items()} == {"a": 4, "b": 2, "c": 1}


def rows_of(runs: interleave.Measured) -> dict[str, dict[str, Any]]:
    return {row["tool"]: row for row in interleave.rows("files", [tool(n) for n in runs], PLAN, runs, REFERENCE)}


def test_only_engines_that_agree_get_numbers() -> None:
    runs: interleave.Measured = {
        OURS: [measured(2.0), measured(1.0), measured(4.0)],
        "fast": [measured(4.0)],
        "slow": [measured(8.0)],
        "wrong once": [measured(1.0), measured(1.0, "b")],
        "absent": [{"missing": "not installed"}],
        "broken": [measured(1.0), {"failed": "exit code 1: boom"}],
        "none": [],
        REFERENCE: [measured(10.0)],
    }
    rows = rows_of(runs)
    assert {name: row["status"] for name, row in rows.items()} == {
        OURS: "ok", "fast": "ok", "slow": "ok", "wrong once": "mismatch", "absent": "missing", "broken": "failed",
        "none": "not run", REFERENCE: "ok",
    }  # fmt: skip
    assert all("seconds" not in row for row in rows.values() if row["status"] != "ok")
    assert rows[OURS]["seconds"] == {"median": 2.0, "min": 1.0, "max": 4.0, "runs": [2.0, 1.0, 4.0]}
    assert (rows["slow"]["times_ours"], rows["slow"]["times_fastest_peer"]) == (4.0, 2.0)
    assert (rows[OURS]["times_ours"], rows[OURS]["times_fastest_peer"]) == (1.0, 0.5)


def test_no_number_without_a_reference() -> None:
    rows = rows_of({OURS: [measured(1.0)], REFERENCE: [{"missing": "not installed"}]})
    assert rows[OURS]["status"] == "unverified" and "seconds" not in rows[OURS]


def test_big_cases_are_held_against_pycocotools_on_a_small_version_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = (tool(OURS), tool("peer"), tool("wrong"), tool(REFERENCE, slow=True))
    monkeypatch.setitem(TOOLS, "files", tools)
    asked: list[tuple[int, list[str]]] = []

    def take(path: str, wanted: Any, plan: interleave.Plan) -> interleave.Measured:
        asked.append((plan.size, [t.name for t in wanted]))
        small = plan.size == LVIS.quick_images
        return {t.name: [measured(1.0, "b" if small and t.name == "wrong" else "a")] for t in wanted}

    monkeypatch.setattr(detection, "interleaved_runs", take)
    rows = detection.compare("files", replace(PLAN, case=LVIS, size=LVIS.images, big=True))
    assert asked == [(100, [OURS, "peer", "wrong", REFERENCE]), (5_000, [OURS, "peer"])]
    assert {row["tool"]: row["status"] for row in rows} == {
        OURS: "ok", "peer": "ok", "wrong": "mismatch", REFERENCE: "not run",
    }  # fmt: skip
    assert {row["images"] for row in rows} == {5_000}


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.parse(["detection", "--repeats", "0"])
    assert "--repeats must be at least 1 but is 0" in capsys.readouterr().err
    assert run.parse(["detection", "--quick"]).case == "all"


def test_phases_of_a_clock() -> None:
    clock = Clock()
    with clock.phase("one"):
        pass
    assert list(clock.phases) == ["one"] and clock.phases["one"] >= 0


def test_results_say_where_they_come_from() -> None:
    about = machine.describe(["torch", "no-such-package"], commit="abc")
    assert about["commit"] == "abc" and about["versions"] == {"torch": version("torch"), "no-such-package": None}
    assert about["machine"]["cpus"] >= 1 and machine.run("no-such-program") is None


# ------------------------------------------------------------------------------------------------------------- report


def result_of(date: str, case: datasets.Case = VAL, quick: bool = False) -> dict[str, Any]:
    runs: interleave.Measured = {OURS: [measured(0.1)], "peer": [measured(0.25)], "absent": [{"missing": "x"}]}
    runs[REFERENCE] = [measured(50.0)]
    about = {**machine.describe(["torch"], "0123456789abcdef"), "date": date}
    rows = interleave.rows("files", [tool(name) for name in runs], replace(PLAN, case=case), runs, REFERENCE)
    return {"kind": "detection", **about, "quick": quick, "threads": 2, "repeats": 5, "slow_repeats": 1, "rows": rows}


def report_of(folder: Path) -> tuple[str, str]:
    """The page and the README that the report makes from the results in ``folder``."""
    readme, page = folder / "README.md", folder / "benchmarks.md"
    blocks = [f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n" for name in ("gpu", "benchmarks")]
    readme.write_text(f"top\n{''.join(blocks)}bottom\n")
    assert report.main(["--page", str(page), "--readme", str(readme), "--results", str(folder)]) == 0
    return page.read_text(), readme.read_text()


def test_page_and_readme_are_those_of_the_stored_results() -> None:
    results, gpu = report.collected(), gpu_table.newest()
    assert (ROOT / "docs/benchmarks.md").read_text() == report.page(results, gpu), "run make report"
    readme = (ROOT / "README.md").read_text()
    assert report.filled(readme, results, gpu) == readme, "run make report"
    assert summary(results).startswith("| | valor_gpu |")


def test_report_shows_the_newest_full_run(tmp_path: Path) -> None:
    results = [result_of("2030-02-01"), result_of("2030-01-01"), result_of("2029-12-01", LVIS)]
    for name, result in enumerate([*results, result_of("2031", quick=True)]):
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    text, readme = report_of(tmp_path)
    assert readme.startswith(f"top\n<!-- gpu:begin -->\n{gpu_table.NOT_MEASURED}\n<!-- gpu:end -->\n")
    assert "<!-- benchmarks:begin -->\n| |" in readme and readme.endswith("<!-- benchmarks:end -->\nbottom\n")
    assert "| COCO AP from JSON files, 200 images | **0.100 s** | peer 2.5x | pycocotools 500x |\n" in readme
    for line in (
        "| JSON files to AP | COCO val2017 scale, 200 images | LVIS scale, 200 images |",
        "| valor_gpu | **0.100 s**, 1 MB | **0.100 s**, 1 MB |",
        "| peer | 0.250 s (2.5x), 2 MB (2.5x) |",
        "| absent | missing | missing |",
        "| pycocotools | 50 s (500.0x), 500 MB (500.0x) |",
    ):
        assert line in text
    assert text.count("Commit 0123456789, 2030-02-01") == 1 and text.count("LVIS scale: medians of 5 runs") == 1
    assert "2030-01-01" not in text and "2031" not in text and "old" not in readme


def test_report_needs_a_full_run_and_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["--results", str(tmp_path)]) == 1
    assert "no result of a full run" in capsys.readouterr().err
    with pytest.raises(ValueError, match="once each"):
        report.put("no markers", "text")
