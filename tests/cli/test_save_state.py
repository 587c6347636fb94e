"""``--save-state`` of every command that evaluates: files that compare takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.errors import InputError
from valor_gpu.state_file import StateFile, read_state, write_state
from valor_gpu.stats import compare

DATA = Path(__file__).parents[2] / "examples" / "data"
COMMANDS: dict[str, list[Any]] = {
    "detect": [
        "--gt", DATA / "instances_val2014_100.json", "--dt", DATA / "instances_val2014_fakebbox100_results.json"
    ],
    "classify": ["--data", DATA / "digits_predictions.csv", "--target", "digit", "--scores-prefix", "p_"],
    "segment": [
        "--gt", DATA / "label_maps" / "gt", "--pred", DATA / "label_maps" / "pred", "--ignore", 255,
        "--names", DATA / "label_maps" / "names.txt"
    ],
    "panoptic": [
        "--gt", DATA / "panoptic_examples.json", "--pred", DATA / "panoptic_examples_predictions.json"
    ],
}  # fmt: skip


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., tuple[Path, dict[str, Any]]]:
    """Runs a command with ``--save-state`` and ``--json``; gives the path of the state and the JSON."""

    def run(command: str, *options: Any, name: str = "a") -> tuple[Path, dict[str, Any]]:
        state, document = tmp_path / f"{name}.state", tmp_path / f"{name}.json"
        given = [command, *options, "--quiet", "--save-state", state, "--json", document]
        assert main([str(each) for each in given]) == OK
        return state, json.loads(document.read_text())

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_saves_what_its_numbers_came_from(command: str, saved: Any) -> None:
    options = COMMANDS[command]
    path, document = saved(command, *options)
    loaded = load_state_file(path)
    assert loaded.notes == () and loaded.result.to_dict()["values"] == document["values"]
    assert loaded.result.to_dict()["counts"] == document["counts"]
    drawn = loaded.result.with_intervals(20).to_dict()["intervals"]
    with_intervals = saved(command, *options, "--intervals", 20, name="b")
    assert drawn == with_intervals[1]["intervals"]
    again = load_state_file(with_intervals[0]).result
    assert again.to_dict()["intervals"] == drawn and again.to_dict()["values"] == document["values"]


def test_detections_of_lvis_and_of_one_image(saved: Any, tmp_path: Path) -> None:
    document = json.loads((DATA / "instances_val2014_100.json").read_text())
    for image in document["images"]:
        image |= {"neg_category_ids": [1, 3], "not_exhaustive_category_ids": []}
    for category, frequency in zip(document["categories"], "rcf" * 100):
        category["frequency"] = frequency
    (tmp_path / "lvis.json").write_text(json.dumps(document))
    detections = DATA / "instances_val2014_fakebbox100_results.json"
    options = ["--gt", tmp_path / "lvis.json", "--dt", detections, "--protocol", "lvis"]
    path, said = saved("detect", *options)
    loaded = load_state_file(path).result
    assert loaded.to_dict()["values"] == said["values"]
    intervals = saved("detect", *options, "--intervals", 20, name="b")[1]["intervals"]
    assert loaded.with_intervals(20).to_dict()["intervals"] == intervals and "map_rare" in intervals


def test_two_models_by_their_files(saved: Any, tmp_path: Path) -> None:
    detections = json.loads((DATA / "instances_val2014_fakebbox100_results.json").read_text())
    worse = [each | {"bbox": [each["bbox"][0] + 9, *each["bbox"][1:]]} for each in detections]
    (tmp_path / "worse.json").write_text(json.dumps(worse))
    gt = ["--gt", DATA / "instances_val2014_100.json"]
    first = saved("detect", *gt, "--dt", tmp_path / "worse.json", name="first")[0]
    second = saved("detect", *gt, "--dt", DATA / "instances_val2014_fakebbox100_results.json", name="second")[0]
    found = compare(first, second, replicates=50)
    assert found.values["difference"]["map"] > 0
    assert found.values["first"]["map"] == load_state_file(first).result.values["map"]


@pytest.mark.parametrize("metrics", ["exact_match,f1_score,bleu,wer", "rouge,chrf"])
def test_texts(metrics: str, saved: Any, tmp_path: Path) -> None:
    (tmp_path / "preds.txt").write_text("a cat\nthe dog sat\n\nno\n")
    (tmp_path / "refs.txt").write_text("a cat\na dog sat down\nx\nyes\n")
    options = ["--predictions", tmp_path / "preds.txt", "--references", tmp_path / "refs.txt", "--metrics", metrics]
    path, document = saved("text", *options)
    loaded = load_state_file(path).result
    assert loaded.to_dict()["values"] == document["values"] and loaded.to_dict()["counts"] == document["counts"]
    drawn = loaded.with_intervals(20).to_dict()["intervals"]
    assert drawn == saved("text", *options, "--intervals", 20, name="b")[1]["intervals"]
    assert b"the dog" not in path.read_bytes()


def test_rows_without_a_score_keep_their_reason(saved: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"answer": "a"}\n')
    options = ["--predictions", tmp_path / "rows.jsonl", "--reference-column", "truth", "--metrics", "exact_match"]
    (tmp_path / "rows.jsonl").write_text('{"answer": "a", "truth": null}\n{"answer": "b", "truth": null}\n')
    path, document = saved("text", *options)
    assert load_state_file(path).result.to_dict()["reasons"] == document["reasons"] != {}


def test_files_of_commands_that_lie_are_refused(saved: Any, tmp_path: Path) -> None:
    for command, change in (("segment", {"images": [{}] * 30}), ("panoptic", {"images": ["a", "a"]})):
        path, _ = saved(command, *COMMANDS[command])
        file = read_state(path)
        write_state(path, StateFile(file.kind, {**file.choices, **change}, file.arrays, file.document))
        with pytest.raises(InputError, match=r"has another form: (ids that are no numbers|an id twice)"):
            load_state_file(path)
    table = tmp_path / "rows.csv"
    table.write_text("answer,ground_truth\na cat,a cat\nthe dog,a dog\n")
    path, _ = saved("text", "--predictions", table, "--metrics", "rouge1")
    file = read_state(path)
    write_state(
        path, StateFile(file.kind, file.choices, {**file.arrays, "places": np.zeros(2, np.int64)}, file.document)
    )
    with pytest.raises(InputError, match="must hold places of its rows but holds others"):
        load_state_file(path)
    for change in ({"unreadable": 10**15}, {"rows": 3}, {"unreadable": -1, "rows": 1}, {"rows": 2.0}, {"several": "1"}):
        write_state(path, StateFile(file.kind, {**file.choices, **change}, file.arrays, file.document))
        with pytest.raises(InputError, match="must count its 2 rows and those unreadable but counts others"):
            load_state_file(path)
    changed = {"unreadable": 10**15, "rows": 10**15 + 2}
    write_state(path, StateFile(file.kind, {**file.choices, **changed}, file.arrays, file.document))
    with pytest.raises(InputError, match="counts/rows is 2 in the file but 1000000000000002 from its state"):
        load_state_file(path)


def test_a_file_that_another_option_names_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictions = tmp_path / "p.csv"
    predictions.write_text("target,p\na,a\n")
    options = ["classify", "--data", str(predictions), "--target", "target", "--pred", "p", "--quiet"]
    assert main([*options, "--save-state", "-"]) == BAD_INPUT
    assert "--save-state must be a file but - is standard output" in capsys.readouterr().err
    assert main([*options, "--save-state", str(predictions)]) == BAD_INPUT
    assert "--save-state must be another file than --data but both are" in capsys.readouterr().err
    assert main([*options, "--save-state", str(tmp_path / "no" / "x.state")]) == BAD_INPUT
    assert "--save-state" in capsys.readouterr().err and predictions.read_text() == "target,p\na,a\n"
