"""``--store`` of detect, segment, classify and panoptic: results as runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_imports import loaded_by
from tests.test_save_result import DETECTIONS, dataset
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.store import Store
from valor_gpu.store.runs import Run

DATA = Path(__file__).parent.parent / "examples" / "data"
MAPS = DATA / "label_maps"


@pytest.fixture
def coco(tmp_path: Path) -> list[str]:
    (tmp_path / "gt.json").write_text(json.dumps(dataset()))
    (tmp_path / "dt.json").write_text(json.dumps(DETECTIONS))
    return ["detect", "--gt", str(tmp_path / "gt.json"), "--dt", str(tmp_path / "dt.json")]


def saved(arguments: list[str], store: Path, *more: str) -> Run:
    assert main([*arguments, "--store", str(store), *more]) == OK
    return Store(store).runs()[0]


def means(run: Run) -> dict[str, Any]:
    return {name: each.mean for name, each in run.summary().items()}


def test_detect(coco: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = saved(coco, tmp_path / "s.sqlite", "--name", "cats")
    assert f"saved as run {run.id} in {tmp_path / 's.sqlite'}" in capsys.readouterr().out
    assert run.name == "cats" and run.config["saved_by"] == "valor-gpu detect --store"
    assert run.config["data"]["source"] == str(tmp_path / "gt.json") and len(run.dataset) == 64
    assert means(run)["image_f1"] == pytest.approx(16 / 45, rel=1e-12)
    assert run.config["settings"]["score threshold"] == 0.25 and run.tags == {"predictions": "dt.json"}


def test_the_commands_of_runs_know_it(coco: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [saved(coco, tmp_path / "s.sqlite", "--name", name, "--quiet").id for name in ("first", "second")]
    for command in (["show", runs[0]], ["compare", runs[0], runs[1]], ["list"]):
        capsys.readouterr()
        assert main(["eval", *command, "--store", str(tmp_path / "s.sqlite")]) == OK
        said = capsys.readouterr().out
        assert {"show": "map_small", "compare": "image_f1", "list": "map 0."}[command[0]] in said


def test_detect_above_another_score_with_pictures_and_the_default_name(coco: list[str], tmp_path: Path) -> None:
    (tmp_path / "img").mkdir()
    run = saved(coco, tmp_path / "s.sqlite", "--store-score", "0", "--images", str(tmp_path / "img"), "--quiet")
    assert run.name == "dt.json" and run.config["images"]["folder"] == str(tmp_path / "img")
    assert means(run)["image_f1"] == pytest.approx(7 / 15, rel=1e-12)


def test_the_default_store(coco: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_GPU_STORE", str(tmp_path / "own.sqlite"))
    assert main([*coco, "--store", "--quiet"]) == OK
    assert Store(tmp_path / "own.sqlite").runs()[0].name == "dt.json"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--name", "x"], "--store must be given with --name but is not"),
        (["--store-score", "0.5"], "--store must be given with --store-score but is not"),
        (["--images", "nowhere"], "--overlay must be given with --images but is not"),
        (["--store", "STORE", "--images", "nowhere"], "--images must be a folder but nowhere does not exist"),
    ],
)
def test_what_cannot_work_is_said_first(
    coco: list[str], tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tmp_path / "s.sqlite") if each == "STORE" else each for each in more]
    assert main([*coco, *given]) == BAD_INPUT
    captured = capsys.readouterr()
    assert message in captured.err and not captured.out


def test_a_store_that_cannot_be_opened_is_said_first(coco: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*coco, "--store", "."]) == FAILURE
    captured = capsys.readouterr()
    assert "store must be a file but" in captured.err and not captured.out


def test_detect_loads_no_torch(coco: list[str], tmp_path: Path) -> None:
    arguments = [*coco, "--store", str(tmp_path / "s.sqlite"), "--quiet"]
    loaded = loaded_by(f"from valor_gpu.cli import main; assert main({arguments!r}) == 0")
    assert "torch" not in loaded and "starlette" not in loaded


def test_lvis_has_no_images(tmp_path: Path) -> None:
    file = dataset()
    for image in file["images"]:
        image |= {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    for category in file["categories"]:
        category["frequency"] = "f"
    (tmp_path / "gt.json").write_text(json.dumps(file))
    (tmp_path / "dt.json").write_text(json.dumps(DETECTIONS))
    command = ["detect", "--gt", str(tmp_path / "gt.json"), "--dt", str(tmp_path / "dt.json"), "--protocol", "lvis"]
    run = saved(command, tmp_path / "s.sqlite")
    assert not run.rows() and "map_frequent" in (run.finished_summary or {})["metrics"]


def test_segment(tmp_path: Path) -> None:
    command = ["segment", "--gt", str(MAPS / "gt"), "--pred", str(MAPS / "pred"), "--ignore", "255", "--quiet"]
    command += ["--names", str(MAPS / "names.txt")]
    run = saved(command, tmp_path / "s.sqlite", "--json", str(tmp_path / "out.json"))
    written, summary = json.loads((tmp_path / "out.json").read_text()), run.finished_summary or {}
    assert run.config["kind"] == "segmentation" and run.name == "pred"
    assert summary["metrics"]["miou"] == written["values"]["miou"]
    assert summary["classes"]["iou"] == written["values"]["iou_per_class"]
    assert means(run)["image_miou"] == pytest.approx(written["values"]["image_miou"], rel=1e-12)
    assert means(run)["image_f1"] == pytest.approx(written["values"]["image_mean_f1"], rel=1e-12)
    assert run.dataset == written["inputs"]["ground_truths"]["sha256"] and len(run.rows()) == 30


def test_segment_finds_the_pictures(tmp_path: Path) -> None:
    for side in ("gt", "pred"):
        (tmp_path / side / "a").mkdir(parents=True)
        np.save(tmp_path / side / "a" / "x.npy", np.zeros((2, 2), np.uint8))
    (tmp_path / "img" / "a").mkdir(parents=True)
    (tmp_path / "img" / "a" / "x_photo.jpg").write_bytes(b"")
    command = [
        "segment",
        "--gt",
        str(tmp_path / "gt"),
        "--pred",
        str(tmp_path / "pred"),
        "--num-classes",
        "2",
        "--quiet",
    ]
    run = saved(command, tmp_path / "s.sqlite", "--images", str(tmp_path / "img"), "--images-suffix", "_photo")
    assert run.rows()[0].key == "a/x" and run.rows()[0].inputs["image"] == "a/x_photo.jpg"


@pytest.mark.parametrize("source", [["--scores-prefix", "p_"], ["--pred", "digit"]])
def test_classify(tmp_path: Path, source: list[str]) -> None:
    command = ["classify", "--data", str(DATA / "digits_predictions.csv"), "--target", "digit", *source, "--quiet"]
    run = saved(command, tmp_path / "s.sqlite")
    summary = run.finished_summary or {}
    assert run.config["kind"] == "classification" and summary["rows"]["n"] == 1797
    assert means(run)["correct"] == pytest.approx(summary["metrics"]["accuracy"], rel=1e-12)
    right = sum(n for i, j, n in summary["matrix"]["counts"] if i == j)
    assert right == sum(each.value for each in run.scores() if each.value)
    assert len(summary["curves"]) == (10 if "--scores-prefix" in source else 0)
    assert summary["matrix"]["names"] == [str(n) for n in range(10)]


@pytest.mark.parametrize("scores", [[0.2, 0.5, 0.9, 0.6], [-3.0, 0.4, 2.0, 0.0]])
def test_classify_with_one_score(tmp_path: Path, scores: list[float]) -> None:
    lines = "\n".join(f"{truth},{score}" for truth, score in zip((0, 1, 1, 0), scores))
    (tmp_path / "p.csv").write_text(f"y,s\n{lines}\n")
    command = ["classify", "--data", str(tmp_path / "p.csv"), "--target", "y", "--scores", "s", "--quiet"]
    run = saved(command, tmp_path / "s.sqlite")
    assert means(run)["correct"] == (run.finished_summary or {})["metrics"]["accuracy"]


def test_panoptic(tmp_path: Path) -> None:
    files = [str(DATA / f"panoptic_examples{end}.json") for end in ("", "_predictions")]
    run = saved(["panoptic", "--gt", files[0], "--pred", files[1], "--quiet"], tmp_path / "s.sqlite")
    summary = run.finished_summary or {}
    assert run.config["kind"] == "segmentation" and len(run.rows()) == 2 and summary["metrics"]["pq"] is not None
    scores = {each.evaluator: each.value for each in run.scores(first=1, last=1)}
    counts = run.rows()[0].outputs
    assert set(scores) == {"image_f1", "image_pq", "image_sq"} and set(counts) == {"found", "wrong", "missed"}
    assert all(0 < (value or 0) < 1 for value in scores.values())
