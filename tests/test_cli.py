"""The command: numbers, files, errors with their place, exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu import NativeError, __version__, native
from valor_gpu.cli import BAD_INPUT, FAILURE, INTERRUPTED, OK, main
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.progress import Progress
from valor_gpu.report import doctor, files
from valor_gpu.report.text import table

ROOT = Path(__file__).parent.parent
GT = ROOT / "examples/data/instances_val2014_100.json"
DT = ROOT / "examples/data/instances_val2014_fakebbox100_results.json"

TRUTH: dict[str, Any] = {
    "images": [{"id": 1}, {"id": 2}],
    "categories": [{"id": 3, "name": "cat"}, {"id": 5, "name": "dog"}, {"id": 6, "name": "dog"}, {"id": 9}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 10, 10], "area": 100, "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 3, "bbox": [0, 0, 90, 90], "area": 8100, "iscrowd": 1},
        {"id": 3, "image_id": 2, "category_id": 5, "bbox": [5, 5, 60, 60], "area": 3600, "iscrowd": 0},
    ],
}
FOUND: list[dict[str, Any]] = [
    {"image_id": 1, "category_id": 3, "bbox": [0, 0, 10, 9], "score": 0.9},
    {"image_id": 2, "category_id": 5, "bbox": [5, 5, 60, 60], "score": 0.8},
    {"image_id": 2, "category_id": 6, "bbox": [5, 5, 60, 60], "score": 0.7},
]

DOUBTFUL = (
    "detections_with_nan_score",
    "detections_of_negative_size",
    "ground_truths_of_negative_size",
    "detections_in_fractions",
    "ground_truths_in_fractions",
    "ground_truths_of_id_0",
    "ground_truths_of_repeated_id",
    "images_of_repeated_id",
    "categories_of_repeated_id",
)

Detect = Callable[..., int]


@pytest.fixture
def detect(tmp_path: Path) -> Detect:
    """Run ``detect`` on these objects, written to files."""

    def run(*options: str, truth: object = TRUTH, found: object = FOUND) -> int:
        paths = tmp_path / "gt.json", tmp_path / "dt.json"
        for path, content in zip(paths, (truth, found)):
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return main(["detect", "--gt", str(paths[0]), "--dt", str(paths[1]), *options])

    return run


def with_first(**changes: Any) -> list[dict[str, Any]]:
    """The detections, the first one changed."""
    return [{**FOUND[0], **changes}, *FOUND[1:]]


def peer(gt: Path, dt: Path) -> tuple[str, Any]:
    """What pycocotools prints as its summary, and its evaluator."""
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    cocoeval = pytest.importorskip("pycocotools.cocoeval", reason="pycocotools is not installed")
    shown = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(gt))
        evaluator = cocoeval.COCOeval(truth, truth.loadRes(str(dt)), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        with contextlib.redirect_stdout(shown):
            evaluator.summarize()
    return shown.getvalue(), evaluator


def test_text_and_json_are_the_numbers_of_pycocotools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["detect", "--gt", str(GT), "--dt", str(DT), "--per-class", "--json", str(out)]) == OK
    shown = capsys.readouterr()
    summary, evaluator = peer(GT, DT)
    assert shown.out.startswith(summary)
    assert shown.err == ""
    assert f"wrote {out}" in shown.out
    written = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert [written["values"][name] for name in list(written["values"])[:12]] == evaluator.stats.tolist()
    precision = evaluator.eval["precision"][:, :, :, 0, -1]  # [T, R, K]
    names = [category["name"] for category in evaluator.cocoGt.loadCats(evaluator.params.catIds)]
    for key, values in (
        ("map_per_class", precision),
        ("map_50_per_class", precision[:1]),
        ("map_75_per_class", precision[5:6]),
    ):
        means = [values[:, :, k].ravel().mean() if values[0, 0, k] > -1 else None for k in range(len(names))]
        assert written["values"][key] == dict(zip(names, means))
    rows = {line[:16].strip(): line[16:].split() for line in shown.out.split("\n\n")[1].splitlines()[1:]}
    assert list(rows) == names
    person = precision[:, :, 0]
    assert rows["person"][:3] == [f"{v:.3f}" for v in (person.ravel().mean(), person[0].mean(), person[5].mean())]
    assert rows["person"][3] == f"{evaluator.eval['recall'][:, 0, 0, -1].mean():.3f}"


def test_counts_reasons_and_choices(detect: Detect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    many = [{**FOUND[0], "score": n / 200} for n in range(103)]
    strays = [{"image_id": 7, "category_id": 3}, {"image_id": 1, "category_id": 77}]
    annotations = [*TRUTH["annotations"], *({**TRUTH["annotations"][0], "id": n, **s} for n, s in enumerate(strays, 8))]
    truth = {**TRUTH, "annotations": annotations}
    found = [*FOUND, *many, {**FOUND[0], "category_id": 77}]
    assert detect("--per-class", "--json", str(out), truth=truth, found=found) == OK
    written = json.loads(out.read_text())
    assert written["counts"] == {
        "images": 2,
        "ground_truths": 3,
        "ignored_ground_truths": 1,
        "ground_truths_left_out": 2,
        "detections": 106,
        "detections_beyond_limit": 4,
        "detections_of_unknown_categories": 1,
        **dict.fromkeys(DOUBTFUL, 0),
    }
    assert written["values"]["ground_truths_per_class"] == {"cat": 2, "dog (5)": 1, "dog (6)": 0, "9": 0}
    assert written["values"]["detections_per_class"] == {"cat": 104, "dog (5)": 1, "dog (6)": 1, "9": 0}
    assert written["values"]["map_large"] is None
    assert written["values"]["map_per_class"]["9"] is None
    for name in ("map_large", "mar_large", "map_per_class/dog (6)", "mar_per_class/9"):
        assert written["reasons"][name] == "no ground truth counts for it"
    assert written["signature"]["convention"] == "strict"
    assert written["signature"]["iou_thresholds"] == "0.5-0.95 in 10"
    assert written["categories"] == {"cat": 3, "dog (5)": 5, "dog (6)": 6, "9": 9}
    shown = capsys.readouterr()
    first, *others = shown.err.splitlines()
    assert first == (
        f"valor-gpu detect: warning: {tmp_path}/dt.json: [106].category_id is 77, no category of {tmp_path}/gt.json:"
        " 1 detection of unknown categories left out"
    )
    assert [line.split(": ", 2)[2].split(" is ")[0] for line in others] == [
        f"{tmp_path}/gt.json: annotations[4].category_id", f"{tmp_path}/gt.json: annotations[3].image_id",
    ]  # fmt: skip
    assert "2 images, 3 ground truths (1 of them crowds), 2 more left out, of unknown images or categories" in shown.out
    assert "106 detections (4 dropped: more than 100 of one image and class), 1 more left out, of unknown" in shown.out
    assert "area= large | maxDets=100 ] = -1.000" in shown.out


def test_conventions_differ_where_there_is_a_quirk(detect: Detect, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    truth = {**TRUTH, "annotations": [{**TRUTH["annotations"][0], "id": 0}]}
    numbers = {}
    for convention in ("strict", "corrected"):
        assert detect("--quiet", "--convention", convention, "--json", str(out), truth=truth) == OK
        numbers[convention] = json.loads(out.read_text())["values"]["map_50"]
    assert numbers["strict"] == 0.0
    assert numbers["corrected"] > 0.99


def test_quiet_prints_nothing_but_warnings(detect: Detect, capsys: pytest.CaptureFixture[str]) -> None:
    assert detect("--quiet", "--per-class") == OK
    assert capsys.readouterr() == ("", "")
    assert detect("--quiet", found=with_first(category_id=4)) == OK
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "warning" in shown.err


def test_picture(detect: Detect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    picture = tmp_path / "pr.png"
    assert detect("--plot", str(picture)) == OK
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    assert f"wrote {picture}" in capsys.readouterr().out
    assert detect("--plot", str(tmp_path / "pr.svg"), "--quiet") == OK
    assert (tmp_path / "pr.svg").read_text().startswith("<?xml")


def test_picture_shows_mean_precision_of_every_threshold() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed").Figure()
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(GT)
        evaluator = COCOeval(truth, truth.loadRes(DT), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
    axes = evaluator.result().plot(ax=figure.subplots())
    precision = evaluator.eval["precision"][:, :, :, 0, -1]
    expected = precision[:, :, precision[0, 0] > -1].mean(axis=2)  # [T, R]
    drawn = np.array([line.get_ydata() for line in axes.lines])
    assert np.array_equal(drawn, expected)
    assert axes.get_title("left") == "Box AP 0.505"
    details = "IoU 0.50 to 0.95, mean over classes, strict convention, 100 images\n"
    assert [text.get_text() for text in axes.texts] == [details]
    assert axes.get_legend().get_texts()[0].get_text() == "0.697 at 0.50"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (with_first(image_id=42), "dt.json: [0].image_id must be the id of one of the 2 images but got 42"),
        (with_first(bbox=[1, 2, 3]), "dt.json: [0].bbox must be 4 numbers [x, y, width, height] but got [1, 2, 3]"),
        (with_first(bbox=[1, 2, math.nan, 3]), "dt.json: [0].bbox (id 1) must be finite but got [1.0, 2.0, nan, 3.0]"),
        (with_first(score="high"), "dt.json: [0].score must be a number but got 'high'"),
        ([{k: v for k, v in FOUND[0].items() if k != "score"}], "dt.json: [0] must have score but has only "),
        (
            {"info": {}, "annotations": [FOUND[0]]},
            "dt.json must be an array of objects but is an object with info, annotations: if its annotations"
            " are the detections, jq .annotations extracts them",
        ),
        ({"images": []}, "dt.json: byte 0: needed an array of objects but got"),
        ('{"annotations": [', "dt.json: byte 0: needed an array of objects but got"),
        ("[1, 2", "dt.json: "),
        ("", "dt.json: "),
    ],
)
def test_bad_detections_are_rejected_with_their_place(
    found: object, message: str, detect: Detect, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert detect("--json", str(tmp_path / "out.json"), found=found) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("valor-gpu detect: error: ")
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
    assert not (tmp_path / "out.json").exists()


def test_swapped_files_are_noticed(detect: Detect, capsys: pytest.CaptureFixture[str]) -> None:
    assert detect(truth=FOUND, found=TRUTH) == BAD_INPUT
    assert capsys.readouterr().err.endswith(": did you swap --gt and --dt?\n")
    for truth, found in ((FOUND, FOUND), (TRUTH, TRUTH), (" ", TRUTH)):
        assert detect(truth=truth, found=found) == BAD_INPUT
        assert "did you swap" not in capsys.readouterr().err


def test_corrected_refuses_unknown_categories(detect: Detect, capsys: pytest.CaptureFixture[str]) -> None:
    assert detect("--convention", "corrected", found=with_first(category_id=4)) == BAD_INPUT
    assert "dt.json: [0].category_id must be an id that " in capsys.readouterr().err


def test_ground_truth_of_unknown_categories_and_images_is_reported(
    detect: Detect, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    odd = [dict(TRUTH["annotations"][0], id=8, category_id=4), dict(TRUTH["annotations"][1], id=9, image_id=77)]
    truth = {**TRUTH, "annotations": [*TRUTH["annotations"], *odd]}
    (tmp_path / "odd.json").write_text(json.dumps(truth))
    assert detect("--quiet", "--gt", str(tmp_path / "odd.json")) == OK
    shown = capsys.readouterr().err.splitlines()
    assert (
        shown[0].endswith("odd.json: 1 ground truth of unknown categories left out") and "category_id is 4" in shown[0]
    )
    assert shown[1].endswith("odd.json: 1 ground truth of unknown images left out") and "image_id is 77" in shown[1]


def test_a_ground_truth_that_lists_nothing_is_reported(
    detect: Detect, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "none.json").write_text("{}")
    assert detect("--quiet", "--gt", str(tmp_path / "none.json"), found=[]) == OK
    shown = capsys.readouterr().err.splitlines()
    assert [line.rsplit(" ", 3)[1:] for line in shown] == [["lists", "no", "categories"], ["lists", "no", "images"]]
    assert detect(truth={**TRUTH, "annotations": []}, found=[]) == OK
    message = "gt.json lists no annotations, so that no number exists (-1 stands for that)"
    assert message in capsys.readouterr().err


def test_options_are_written_out(detect: Detect, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        detect("--per-clas")
    shown = capsys.readouterr().err
    assert "valor-gpu detect: error: unrecognized arguments: --per-clas; did you mean '--per-class'" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gt", "nothing.json"], "--gt must be a file but nothing.json does not exist"),
        (["--dt", "."], "--dt must be a file but . is a folder"),
        (["--dt", "{folder}/gt.json"], "--dt must be another file than --gt but both are {folder}/gt.json"),
        (["--json", "{folder}/dt.json"], "--json must be another file than --dt but both are {folder}/dt.json"),
        (["--json", "{folder}/a.png", "--plot", "{folder}/a.png"], "--json must be another file than --plot"),
        (["--json", "{folder}"], "--json must be a file but {folder} is a folder"),
        (["--json", "{folder}/no/out.json"], "--json must lie in a folder that exists but {folder}/no does not"),
        (["--plot", "{folder}/pr.doc"], "--plot must end in one of "),
        (["--device", "cuda:99"], "device must be available but got 'cuda:99'"),
    ],
)
def test_bad_options_are_rejected_before_any_work(
    options: list[str], message: str, detect: Detect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert detect(*(option.format(folder=tmp_path) for option in options), found="not even JSON") == BAD_INPUT
    assert message.format(folder=tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["detect"], ["detect", "--gt", "a", "--dt", "b", "--device", "gpu"], ["no-such-command"]]
)
def test_bad_command_lines_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: valor-gpu" in capsys.readouterr().err


def test_a_file_or_folder_without_permission(
    detect: Detect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: not Path(path).is_dir())  # root may do anything
    assert detect("--json", str(tmp_path / "out.json")) == BAD_INPUT
    assert "--json must lie in a writable folder but" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert detect() == BAD_INPUT
    assert "--gt must be readable but" in capsys.readouterr().err


def test_a_failed_write_leaves_the_old_file(
    detect: Detect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    out.write_text("old")

    def full(self: Path, *args: Any, **kwargs: Any) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        paths = tmp_path / "gt.json", tmp_path / "dt.json"
        for path, content in zip(paths, (TRUTH, FOUND)):
            path.write_text(json.dumps(content))
        patch.setattr(Path, "write_bytes", full)
        assert main(["detect", "--gt", str(paths[0]), "--dt", str(paths[1]), "--json", str(out)]) == FAILURE
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dt.json", "gt.json", "out.json"]


def test_a_missing_extra_is_named(
    detect: Detect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert detect("--plot", str(tmp_path / "pr.png")) == FAILURE
    assert "--plot needs matplotlib: pip install 'valor_gpu[plot]'" in capsys.readouterr().err
    assert detect("--quiet") == OK


def test_interruption(detect: Detect, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(self: COCOeval) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(COCOeval, "evaluate", interrupt)
    assert detect() == INTERRUPTED
    assert capsys.readouterr().err == "valor-gpu detect: error: interrupted\n"


def test_lists_of_numbers_stand_on_one_line(tmp_path: Path) -> None:
    value = {"a": [1, 2.5], "b": {"c": [[1, 2], [3]], "d": []}, "e": ["x, y", "[\n]"], "f": None}
    files.write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == value
    assert '  "a": [1, 2.5],\n' in text


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_shows_step_and_bar_on_a_terminal_only() -> None:
    for stream, enabled in ((Terminal(), True), (Terminal(), False), (io.StringIO(), True)):
        with Progress(4, stream, enabled=enabled, patience=0.0) as progress:
            progress.step("reading")
            progress.step("matching 5 images")
            deadline = time.monotonic() + 60
            while enabled and stream.isatty() and "matching" not in stream.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
        shown = stream.getvalue()
        if enabled and stream.isatty():
            assert "[#####---------------] 2/4 matching 5 images  0." in shown
            assert shown.endswith("\r\x1b[K")
        else:
            assert shown == ""


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_progress_goes_to_standard_error_unless_quiet(
    options: list[str], detect: Detect, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, evaluate = Terminal(), COCOeval.evaluate

    def slow(self: COCOeval) -> None:
        deadline = time.monotonic() + (0.2 if options else 60.0)
        while "matching 2 images" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        evaluate(self)

    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(COCOeval, "evaluate", slow)
    monkeypatch.setattr("valor_gpu.progress.Progress.__init__.__defaults__", (True, 0.0))
    assert detect(*options) == OK
    assert ("3/5 matching 2 images" in terminal.getvalue()) == (not options)


def test_short_work_shows_no_progress() -> None:
    stream = Terminal()
    with Progress(1, stream, patience=60.0) as progress:
        progress.step("reading")
    assert stream.getvalue() == ""


def test_table_counts_wide_characters_twice() -> None:
    assert table(["class", "AP"], [["猫", "0.5"], ["e\u0301", "1.0"]]).splitlines() == [
        "class   AP",
        "猫     0.5",
        "e\u0301      1.0",
    ]


def test_doctor_tells_which_kernel_serves_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == OK
    facts = json.loads(capsys.readouterr().out)
    assert facts["valor_gpu"] == __version__
    assert facts["packages"]["numpy"] == np.__version__
    ops = {op["name"]: op for op in facts["ops"]}
    assert set(ops) >= {"box_iou", "assign", "order_records", "pack_masks", "precision_recall"}
    assert ops.pop("present_means")["cpu"]["reason"].startswith("numpy")
    kernel = "C++" if native.available("valor_cpu") else "reference"
    assert all(op["cpu"] == {"kernel": kernel, "reason": native.reason("valor_cpu")} for op in ops.values())
    assert main(["doctor"]) == OK
    text = capsys.readouterr().out
    assert text.startswith(f"valor_gpu {__version__}, Python ")
    for op in ops.values():
        line = next(line for line in text.splitlines() if line.split()[:1] == [op["name"]])
        assert f"{op['cuda']['kernel']}: {op['cuda']['reason']}" in line


def test_doctor_advises_what_would_serve_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda name: False)
    monkeypatch.setattr(native, "reason", lambda name: f"lib{name}.so was not built")
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    facts = doctor.survey()
    text = doctor.doctor_text(facts)
    assert "metrics of tensors need torch and torchmetrics: pip install 'torch>=" in facts["advice"][0]
    assert "plain torch serves CPU tensors, slowly" in facts["advice"][1]
    assert "libvalor_cpu.so was not built" in text
    words = " ".join(text.split())
    assert "matplotlib missing: pip install 'valor_gpu[plot]'" in words
    assert "torchmetrics missing: pip install 'torch>=" in words


def test_doctor_tells_of_a_kernel_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.survey()["devices"][0]["check"] == "fine"

    def broken(*boxes: Any) -> Any:
        raise NativeError("valor_box_iou_cpu failed with status 7")

    monkeypatch.setattr("valor_gpu.ops.box_iou", broken)
    assert "FAILS: valor_box_iou_cpu failed with status 7" in doctor.doctor_text(doctor.survey())
    monkeypatch.setattr("valor_gpu.ops.box_iou", lambda *boxes: np.array(0.5))
    assert "FAILS: box_iou of a box with itself gives 0.5" in doctor.doctor_text(doctor.survey())


def test_doctor_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    facts = doctor.survey()
    assert facts["ops"] == facts["devices"] == []
    assert facts["cuda"].startswith("torch does not load: ")
    assert "torch does not load" in doctor.doctor_text(facts)


def test_doctor_knows_the_extras() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name: tuple(p.split(">")[0].split("[")[0] for p in packages)
        for name, packages in project["optional-dependencies"].items()
    }
    assert {
        name: packages for name, packages in extras.items() if name not in ("dev", "bench", "docs")
    } == doctor.EXTRAS
    assert tuple(p.split(">")[0] for p in project["dependencies"]) == doctor.CORE


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "valor_gpu"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"valor_gpu {__version__}\n"
    bad = subprocess.run([*command, "detect", "--gt", "a", "--dt", "b"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (BAD_INPUT, "")
    assert bad.stderr == "valor-gpu detect: error: --gt must be a file but a does not exist\n"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "valor_gpu", "doctor"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == FAILURE


def test_class_names_that_the_terminal_cannot_show_are_shown_as_escapes(tmp_path: Path) -> None:
    names = ["日本", "\ud83d", "\x1b[2J\n"]
    truth = {**TRUTH, "categories": [{"id": place, "name": name} for place, name in zip((3, 5, 6), names)]}
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "dt.json").write_text(json.dumps(FOUND))
    command = [sys.executable, "-m", "valor_gpu", "detect", "--gt", "gt.json", "--dt", "dt.json", "--per-class"]
    for encoding, shown in (("ascii", "\\u65e5\\u672c"), ("utf-8", names[0])):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
        lines = done.stdout.decode().splitlines()
        rows = lines[next(n for n, line in enumerate(lines) if line.startswith("class ")) + 1 :][:3]
        assert (done.returncode, done.stderr) == (OK, b"")
        assert [row.split()[0] for row in rows] == [shown, "\\ud83d", "\\x1b[2J\\n"]


def test_without_standard_output_there_is_no_report(detect: Detect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert detect() == OK
