"""``--fail-under``: exit status 1 names each number that is too low or does not exist; all commands take it."""

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
    """One large object of cat, found; dog has neither ground truth nor detection."""
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 100, 100]}
    truth = {
        "images": [{"id": 1, "width": 200, "height": 200}],
        "annotations": [{"id": 1, "area": 10000, "iscrowd": 0, **box}],
        "categories": [{"id": 1, "name": "cat=1"}, {"id": 2, "name": "dog"}],
    }
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "dt.json").write_text(json.dumps([{**box, "bbox": [0, 0, 100, 76], "score": 0.5}]))
    return ["detect", "--gt", f"{tmp_path}/gt.json", "--dt", f"{tmp_path}/dt.json"]


def run(arguments: list[str], *least: str) -> int:
    return main([*arguments, *(part for each in least for part in ("--fail-under", each))])


def test_a_number_below_fails_by_name(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(detect, "map=0.599", "map_50=0.999", "map_per_class/cat=1=0.599") == OK
    assert run([*detect, "--quiet"], "map=0.61", "map_50=0.999", "map_per_class/cat=1=0.7") == FAILURE
    low, of_cat = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"valor-gpu detect: failed: map must be at least 0.61 but is 0\.(6|59999)\d*", low)
    assert of_cat.startswith("valor-gpu detect: failed: map_per_class/cat=1 must be at least 0.7 but is 0.")


def test_a_number_that_does_not_exist_fails(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*detect, "--quiet"], "map_small=-1") == FAILURE
    found = capsys.readouterr().err
    assert re.search(r"failed: map_small must be at least -1.0 but does not exist: no ground truth", found), found


def test_the_report_and_files_are_written_all_the_same(
    detect: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*detect, "--json", f"{tmp_path}/out.json"], "map=0.9") == FAILURE
    assert json.loads((tmp_path / "out.json").read_text())["values"]["map"] == pytest.approx(0.6)
    assert "Average Precision" in capsys.readouterr().out


def test_names_and_values_are_checked(detect: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(detect, "map_51=0.5") == BAD_INPUT
    assert "--fail-under needs a number of the result but got map_51; did you mean" in capsys.readouterr().err
    for wrong in ("map", "map=", "=0.5", "map=high", "map=nan", "map=inf"):
        with pytest.raises(SystemExit, match=str(BAD_INPUT)):
            run(detect, wrong)
        assert f"must be NUMBER=VALUE, such as map=0.37, but got {wrong!r}" in capsys.readouterr().err


def test_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("t,p\na,a\nb,b\nb,a\na,a\n")
    np.save(tmp_path / "gt.npy", np.array([[0, 0, 1, 1]], np.uint8))
    np.save(tmp_path / "pred.npy", np.array([[0, 1, 1, 1]], np.uint8))
    maps = ["--gt", f"{tmp_path}/gt.npy", "--pred", f"{tmp_path}/pred.npy", "--num-classes", "2"]
    commands = {
        "accuracy": ["classify", "--data", f"{tmp_path}/rows.csv", "--target", "t", "--pred", "p", "--quiet"],
        "miou": ["segment", *maps, "--quiet"],
        "pq": ["panoptic", "--gt", str(GROUND_TRUTH), "--pred", str(PREDICTIONS), "--quiet"],
    }
    for name, command in commands.items():
        assert run(command, f"{name}=0.01") == OK, capsys.readouterr().err
        assert run(command, f"{name}=0.999") == FAILURE
        assert f"failed: {name} must be at least 0.999 but is 0." in capsys.readouterr().err
