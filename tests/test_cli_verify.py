"""``valor-gpu verify``: makes the numbers of a file again, and names the first difference."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.lvis_scenes import random_lvis
from tests.checkout import ROOT
from valor_gpu.cli import BAD_INPUT, OK, _parsed, main
from valor_gpu.cli.given import CHOICES, command_line, given_options
from valor_gpu.coco import COCO, LVIS, COCOeval, LVISEval, LVISResults
from valor_gpu.errors import InputError
from valor_gpu.report.verification import count_numbers, first_difference
from valor_gpu.result import Result, Signature

DATA = ROOT / "examples/data"
GT, DT = DATA / "instances_val2014_100.json", DATA / "instances_val2014_fakebbox100_results.json"
DIFFERS = 1
COMMANDS: dict[str, list[str]] = {
    "detect": [
        *("--gt", str(GT), "--dt", str(DT), "--intervals", "20", "--by=image_size", "--errors"),
        *("--analysis-iou", ".6"),
    ],
    "classify": [
        *("--data", str(DATA / "digits_predictions.csv"), "--target", "digit", "--scores-prefix", "p_"),
        *("--intervals", "20", "--seed=4", "--average", "micro"),
    ],
    "segment": [
        *("--gt", str(DATA / "label_maps/gt"), "--pred", str(DATA / "label_maps/pred"), "--ignore", "255"),
        *("--names", str(DATA / "label_maps/names.txt"), "--intervals", "20"),
    ],
    "panoptic": [
        *("--gt", str(DATA / "panoptic_examples.json"), "--pred", str(DATA / "panoptic_examples_predictions.json")),
        *("--intervals", "20"),
    ],
    "text": ["--prediction", "-a b", "--reference", "a", "--reference", "-b c", "--metrics", "rouge1,word_error_rate"],
}  # fmt: skip

Said = pytest.CaptureFixture[str]


def written(command: str, folder: Path, *more: str) -> Path:
    path = folder / f"{command}.json"
    assert main([command, *COMMANDS[command], *more, "--json", str(path), "--quiet"]) == OK
    return path


def verify(said: Said, *argv: Any) -> tuple[int, str, str]:
    said.readouterr()
    status = main(["verify", *map(str, argv)])
    return status, *said.readouterr()


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_numbers_come_out_again(command: str, tmp_path: Path, capsys: Said) -> None:
    path = written(command, tmp_path)
    before = path.read_bytes()
    status, out, _ = verify(capsys, path)
    assert status == OK
    assert out.startswith(f"{path} is right: all of its ") and out.endswith(" numbers came out again, bit for bit\n")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_difference_is_named(command: str, tmp_path: Path, capsys: Said) -> None:
    path = written(command, tmp_path)
    found = json.loads(path.read_text())["values"]
    name = next(name for name, value in found.items() if isinstance(value, float) and value != 0.5)
    edit(path, lambda document: document["values"].update({name: 0.5}))
    status, out, _ = verify(capsys, path)
    assert (status, out) == (DIFFERS, f"{path} differs: {name} is {found[name]} but the file says 0.5\n")


def test_an_interval_a_slice_and_an_error_count(tmp_path: Path, capsys: Said) -> None:
    path = written("detect", tmp_path)
    whole = json.loads(path.read_text())
    low = whole["intervals"]["map_small"]["low"]
    ap = whole["errors"]["values"]["ap"]
    for change, expected in (
        (lambda d: d["intervals"]["map_small"].update(low=0.1), f"interval map_small/low is {low} but the file says"),
        (lambda d: d["slices"][0].update(units=-1), "slice [0]/units is"),
        (lambda d: d["errors"]["values"].update(ap=0.1), f"errors: ap is {ap} but the file says 0.1"),
        (lambda d: d["errors"]["values"].pop("ap"), f"errors: ap is {ap} but the file says missing"),
        (lambda d: d["counts"].update(images=3), "count images is 100 but the file says 3"),
        (lambda d: d["signature"].update(average="micro"), "signature average is 'macro' but the file says 'micro'"),
        (lambda d: d.pop("errors"), "errors is there but the file says missing"),
    ):  # fmt: skip
        path.write_text(json.dumps(whole))
        edit(path, change)
        status, out, _ = verify(capsys, path)
        assert status == DIFFERS and out.startswith(f"{path} differs: {expected}"), out


def test_another_file_is_named_before_any_number(tmp_path: Path, capsys: Said) -> None:
    path = written("detect", tmp_path)
    other = tmp_path / "other.json"
    other.write_text(DT.read_text() + " ")
    status, out, _ = verify(capsys, path, "--dt", other)
    assert status == DIFFERS and out.startswith(f"{path} differs: {other} has the SHA-256 ")
    assert "but the detections of the result had " in out
    copied = tmp_path / "copy.json"
    shutil.copy(DT, copied)
    assert verify(capsys, path, "--dt", copied, "--gt", GT)[0] == OK


@pytest.mark.parametrize("name", ["ground_truth", "predictions"])
def test_a_hash_of_other_data_is_a_difference(name: str, tmp_path: Path, capsys: Said) -> None:
    path = written("detect", tmp_path)
    edit(path, lambda d: d["provenance"].update({name: "0" * 64}))
    status, out, _ = verify(capsys, path)
    assert status == DIFFERS and f"the hash of the {name.replace('_', ' ')} is " in out
    assert out.rstrip().endswith("but the file says " + "0" * 64)
    edit(path, lambda d: d["provenance"].pop(name))  # nothing is said of it
    assert verify(capsys, path)[0] == OK


def test_folders_are_told_by_their_files(tmp_path: Path, capsys: Said) -> None:
    path, folder = written("segment", tmp_path), tmp_path / "pred"
    shutil.copytree(DATA / "label_maps/pred", folder)
    assert verify(capsys, path, "--pred", folder)[0] == OK
    first, second = sorted(folder.iterdir())[:2]
    first.write_bytes(second.read_bytes())
    status, out, _ = verify(capsys, path, "--pred", folder)
    assert status == DIFFERS and f"the files of {folder} have together the SHA-256" in out
    path, folder = written("panoptic", tmp_path), tmp_path / "png"
    shutil.copytree(DATA / "panoptic_examples", folder)
    assert verify(capsys, path, "--gt-dir", folder)[0] == OK
    first, second = sorted(folder.iterdir())[:2]
    first.write_bytes(second.read_bytes())
    assert verify(capsys, path, "--gt-dir", folder)[0] in (DIFFERS, BAD_INPUT)


def test_texts_in_files(tmp_path: Path, capsys: Said) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(4)]
    for number, file in enumerate(files):
        file.write_text(f"a b {number}\nc d\n")
    path = tmp_path / "text.json"
    argv = ["text", "--predictions", str(files[0]), "--references", *map(str, files[1:3]), "--metrics", "rouge1"]
    assert main([*argv, "--param", "rouge1.tokenizer=valor", "--json", str(path)]) == OK
    assert json.loads(path.read_text())["options"] == {"metrics": "rouge1", "param": ["rouge1.tokenizer=valor"]}
    assert verify(capsys, path)[0] == OK
    status, out, _ = verify(capsys, path, "--references", files[1], files[3])
    assert status == DIFFERS and f"{files[3]} has the SHA-256" in out and "but the references 2 of the result" in out
    table = tmp_path / "a.csv"
    table.write_text("answer,reference\na b,a\nc,c\n")
    assert main(["text", "--predictions", str(table), "--metrics", "rouge1", "--json", str(path)]) == OK
    assert verify(capsys, path)[0] == OK


def test_another_version_is_a_note(tmp_path: Path, capsys: Said) -> None:
    path = written("panoptic", tmp_path)
    edit(path, lambda document: document["signature"].update(version="0.1.9"))
    status, _, error = verify(capsys, path)
    assert status == OK and f"valor-gpu verify: note: {path} was written by version 0.1.9; this is " in error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("options"), "FILE must have options, which tell how to make the numbers again, but "),
        (lambda d: d.update(command="eval run"), "has command 'eval run'"),
        (lambda d: d.update(schema_version=2), "FILE must have schema_version 1 but .* has 2: verify it with"),
        (lambda d: d.pop("schema_version"), "FILE must have schema_version 1 but .* has None"),
        (lambda d: d["options"].update(store="x"), "options of panoptic must be of intervals, .* has 'store'"),
        (lambda d: d["options"].update(seed=3), "options.seed must be true, a text or a list of texts but is 3"),
        (lambda d: d["inputs"].update(predictions="a"), "FILE must have the path of each input but"),
        (lambda d: d["inputs"]["predictions"].update(path=5), "FILE must have the path of each input but"),
        (lambda d: d["inputs"]["predictions"].update(path="-"), "--pred must be given: the result is of standard"),
        (lambda d: d["inputs"]["predictions"].update(path="no.json"), "--pred must be a file but no.json does not"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_again(change: Any, message: str, tmp_path: Path, capsys: Said) -> None:
    path = written("panoptic", tmp_path)
    edit(path, change)
    status, out, error = verify(capsys, path)
    assert (status, out) == (BAD_INPUT, "") and re.search(message, error), error


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is no JSON"), ("3", "holds no object"), ("[[" * 9999, "is no JSON")]
)
def test_files_of_another_kind(content: str, message: str, tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    status, _, error = verify(capsys, path)
    assert status == BAD_INPUT and message in error
    assert verify(capsys, tmp_path)[0] == BAD_INPUT and verify(capsys, tmp_path / "none")[0] == BAD_INPUT


def test_paths_of_other_commands(tmp_path: Path, capsys: Said) -> None:
    path = written("panoptic", tmp_path)
    status, _, error = verify(capsys, path, "--data", path)
    expected = "--data must not be given: the result is of panoptic, which takes --gt, --gt-dir, --pred, --pred-dir"
    assert status == BAD_INPUT and expected in error


def test_options_come_back_as_they_were_given() -> None:
    for command, argv in COMMANDS.items():
        first, inputs = (
            _parsed([command, *argv, "--json", "-"]),
            2 if command == "classify" else 0 if command == "text" else 4,
        )
        again = _parsed([command, *argv[:inputs], *command_line(command, first.given), "--json", "-"])
        assert vars(again) == vars(first)


def test_only_choices_are_kept(tmp_path: Path) -> None:
    argv = ["--gt", "a", "--dt", "b", "--json", "c", "--quiet", "--store", "--per-class", "--fail-under", "map=0.1"]
    assert _parsed(["detect", *argv]).given == {}
    assert not hasattr(_parsed(["detect", "--gt", "a", "--dt", "b"]), "given")  # nothing keeps them
    argv += ["--errors-protocol", "coco", "--report", "r.html", "--analysis-iou", "0.6"]
    assert _parsed(["detect", *argv]).given == {}  # they belong to the report
    argv += ["--operating-points", "--intervals=9", "--by-bins", "a=1,2", "--by-bins", "b=1,2"]
    expected = {"operating-points": True, "intervals": "9", "by-bins": ["a=1,2", "b=1,2"], "analysis-iou": "0.6"}
    assert _parsed(["detect", *argv]).given == expected


def test_every_choice_is_an_option() -> None:
    from valor_gpu.cli import parser

    commands = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    for command, names in CHOICES.items():
        flags = {flag.removeprefix("--") for action in commands[command]._actions for flag in action.option_strings}
        assert set(names) <= flags, command


def test_values_of_options_are_told_from_options() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--by", nargs="+")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--operating-points", nargs="?", const="x")
    parser.add_argument("--seed")
    found = given_options(parser, "detect", ["--errors", "--by", "a", "b", "--seed", "-3", "--operating-points", "f"])
    assert found == {"errors": True, "by": "a", "seed": "-3", "operating-points": "f"}
    with pytest.raises(InputError, match=r"options.by must be true, a text or a list of texts but is \[\]"):
        command_line("detect", {"by": []})


# ------------------------------------------------------------------------------------------------- files of Result.save


def coco_result(dataset: Path, results: str, change: Any = None, kind: str = "bbox", **choices: Any) -> Result:
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(dataset)
        evaluation = COCOeval(truth, truth.loadRes(results), kind, **choices)
    if change is not None:
        change(evaluation.params)
    evaluation.evaluate()
    evaluation.accumulate()
    return evaluation.result()


def changed(p: Any) -> None:
    p.iouThrs, p.recThrs, p.maxDets, p.useCats = [0.3, 0.77], [0.0, 0.123456789, 1.0], [1, 10, 50], 0
    p.areaRng, p.areaRngLbl = [[0, 1e10], [3, 44.5]], ["all", "my area"]


@pytest.mark.parametrize("change", [None, changed])
@pytest.mark.parametrize("convention", ["strict", "corrected"])
def test_a_saved_result_comes_out_again(change: Any, convention: str, tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "a.json"
    result = coco_result(GT, str(DT), change, convention=convention)
    result.with_intervals(20).save(path)
    assert verify(capsys, path, "--gt", GT, "--dt", DT)[:2] == (
        OK,
        f"{path} is right: all of its {count_numbers(result.with_intervals(20).to_dict()):,} numbers came out again,"
        " bit for bit\n",
    )
    rows = json.loads(DT.read_text())
    rows[0]["score"] += 1e-9
    (tmp_path / "o.json").write_text(json.dumps(rows))
    status, out, _ = verify(capsys, path, "--gt", GT, "--dt", tmp_path / "o.json")
    assert status == DIFFERS and f"the hash of the predictions in {tmp_path / 'o.json'} is " in out
    edit(path, lambda document: document["values"].update(map=0.5))
    status, out, _ = verify(capsys, path, "--gt", GT, "--dt", DT)
    assert status == DIFFERS and out.startswith(f"{path} differs: map is ") and out.endswith(" but the file says 0.5\n")


def test_saved_masks_and_lvis(tmp_path: Path, capsys: Said) -> None:
    gt, dt = DATA / "instances_val2014_100_masks.json.gz", DATA / "instances_val2014_fakesegm100_results.json.gz"
    coco_result(gt, str(dt), None, "segm").save(tmp_path / "a.json")
    assert verify(capsys, tmp_path / "a.json", "--gt", gt, "--dt", dt)[0] == OK
    dataset, detections = random_lvis(1)
    gt, dt = tmp_path / "gt.json", tmp_path / "dt.json.gz"
    gt.write_text(json.dumps(dataset))
    dt.write_bytes(gzip.compress(json.dumps(detections).encode()))
    for limit in (300, 2):
        truth = LVIS(gt)
        evaluation = LVISEval(truth, LVISResults(truth, str(dt), limit))
        evaluation.run()
        evaluation.result().save(tmp_path / "a.json")
        assert verify(capsys, tmp_path / "a.json", "--gt", gt, "--dt", dt)[0] == OK


def test_choices_that_a_saved_result_does_not_tell(tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "a.json"

    def few(p: Any) -> None:
        p.imgIds = p.imgIds[:50]

    coco_result(GT, str(DT), few).save(path)
    status, _, error = verify(capsys, path, "--gt", GT, "--dt", DT)
    assert status == BAD_INPUT
    assert "choices that the result tells but its imgIds has 50 instead of all 100: evaluate these in Python" in error
    result = coco_result(GT, str(DT))
    clusters = {image["id"]: number % 9 for number, image in enumerate(json.loads(GT.read_text())["images"])}
    from valor_gpu.stats import Bootstrap

    result.with_intervals(Bootstrap(20, clusters=clusters)).save(path)
    status, _, error = verify(capsys, path, "--gt", GT, "--dt", DT)
    assert status == BAD_INPUT and "no file holds the clusters of its intervals" in error
    assert verify(capsys, path, "--gt", GT)[0] == BAD_INPUT
    Result({"a": 1.0}, Signature({"metric": "AP"})).save(path)
    status, _, error = verify(capsys, path, "--gt", GT, "--dt", DT)
    assert (
        status == BAD_INPUT and "reads results of COCOeval and LVISEval, and documents of --json, but got AP" in error
    )


def test_differences_are_of_bits() -> None:
    assert first_difference({"values": {"a": 0.0}}, {"values": {"a": -0.0}}) == "a is 0.0 but the file says -0.0"
    assert first_difference({"values": {"a": 1}}, {"values": {"a": 1.0}}) == "a is 1 but the file says 1.0"
    assert first_difference({"values": {"a": [1.0, None]}}, {"values": {"a": [1.0, 2.0]}}) == (
        "a[1] is null but the file says 2.0"
    )
    assert (
        first_difference({"values": {"a": {"b": 1.0}}}, {"values": {"a": {}}}) == "a/b is 1.0 but the file says missing"
    )
    same = {"values": {"a": 0.1}, "signature": {"version": "1"}, "provenance": {"device": "x"}}
    assert first_difference(same, {**same, "signature": {"version": "2"}, "provenance": {}}) == ""
