"""``--fail-if`` of detect, classify, segment, panoptic and text: gates beside ``--fail-under``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from testing.panoptic_files import GROUND_TRUTH, PREDICTIONS
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main


@pytest.fixture
def detect(tmp_path: Path) -> list[str]:
    """One large object of a class with an odd name, found; dog has neither ground truth nor detection."""
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 100, 100]}
    truth = {
        "images": [{"id": 1, "width": 200, "height": 200}],
        "annotations": [{"id": 1, "area": 10000, "iscrowd": 0, **box}],
        "categories": [{"id": 1, "name": "salt and pepper < 1 kg"}, {"id": 2, "name": "dog"}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "dt.json").write_text(json.dumps([{**box, "bbox": [0, 0, 100, 76], "score": 0.5}]))
    return ["detect", "--gt", f"{tmp_path}/gt.json", "--dt", f"{tmp_path}/dt.json", "--quiet"]


def run(arguments: list[str], *gates: str) -> int:
    return main([*arguments, *(part for gate in gates for part in ("--fail-if", gate))])


def test_gates_on_numbers_classes_and_counts(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    of_class = '"map_per_class/salt and pepper < 1 kg"'
    assert run(detect, "map < 0.5", f"{of_class} < 25%", "counts/images != 1 and map < 2") == OK
    assert run(detect, "map < 0.5", f"{of_class} < 75% and map < 0.7", "counts/images == 1") == FAILURE
    second, third = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        rf"valor-gpu detect: failed: {of_class} < 0\.75 and map < 0\.7 holds: map_per_class/.* is 0\.6, map is 0\.6",
        second,
    )
    assert third == "valor-gpu detect: failed: counts/images == 1 holds: it is 1"


def test_numbers_that_do_not_exist(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(detect, "map_small < 0.5") == FAILURE
    assert re.search(r"failed: map_small < 0\.5 cannot be decided: there is no number, no ", capsys.readouterr().err)
    assert run(detect, "map_per_class/dog < 0.5 and map < 0.5") == OK
    assert run(detect, "map_per_class/dog < 0.5 and map < 0.7") == FAILURE
    assert "there is no map_per_class/dog, " in capsys.readouterr().err


def test_ends_of_intervals(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*detect, "--intervals", "20"], "map_low < 0.1") == FAILURE
    assert "map_low < 0.1 cannot be decided: there is no number, " in capsys.readouterr().err
    assert run(detect, "map_low < 0.1") == BAD_INPUT
    assert "--fail-if: gate must name a number of the run but 'map_low' is none" in capsys.readouterr().err


def test_beside_fail_under(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*detect, "--fail-under", "map=0.7"], "map < 0.65") == FAILURE
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert run([*detect, "--fail-under", "map=0.7"], "map < 0.5") == FAILURE
    assert run([*detect, "--fail-under", "map=0.5"], "map < 0.5") == OK


def test_a_gate_is_read_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("map", "map < high", "map < 0.5 or map > 0.7", "map < 50%%"):
        with pytest.raises(SystemExit, match=str(BAD_INPUT)):
            main(["detect", "--gt", "/none", "--dt", "/none", "--fail-if", wrong])
        assert (
            f"argument --fail-if: gate must be like 'map >= 0.4 and p_map < 0.05' but is {wrong!r}: at character"
            in (capsys.readouterr().err)
        )


def test_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("t,p\na,a\nb,b\nb,a\na,a\n")
    (tmp_path / "a.txt").write_text("a b c\na b\n")
    (tmp_path / "b.txt").write_text("a b d\na b\n")
    np.save(tmp_path / "gt.npy", np.array([[0, 0, 1, 1]], np.uint8))
    np.save(tmp_path / "pred.npy", np.array([[0, 1, 1, 1]], np.uint8))
    maps = ["--gt", f"{tmp_path}/gt.npy", "--pred", f"{tmp_path}/pred.npy", "--num-classes", "2"]
    texts = ["--predictions", f"{tmp_path}/a.txt", "--references", f"{tmp_path}/b.txt", "--metrics", "f1_score"]
    commands = {
        "accuracy": ["classify", "--data", f"{tmp_path}/rows.csv", "--target", "t", "--pred", "p", "--quiet"],
        "miou": ["segment", *maps, "--quiet"],
        "pq": ["panoptic", "--gt", str(GROUND_TRUTH), "--pred", str(PREDICTIONS), "--quiet"],
        "mean_f1_score": ["text", *texts, "--quiet"],
    }
    for name, command in commands.items():
        assert run(command, f"{name} < 0.01", f"{name} > 99.9% and {name} < 2") == OK, capsys.readouterr().err
        assert run(command, f"{name} < 0.999") == FAILURE
        assert f"failed: {name} < 0.999 holds: it is 0." in capsys.readouterr().err
        assert main([*command, "--fail-under", f"{name}=0.999"]) == FAILURE
        assert f"failed: {name} must be at least 0.999 but is 0." in capsys.readouterr().err
