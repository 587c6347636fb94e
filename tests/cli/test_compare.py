"""``valor-gpu compare``: what it shows and writes is what ``compare`` gives, and gates decide its exit status."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.checkout import ROOT
from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.comparison import ComparisonResult
from valor_gpu.stats import compare
from valor_gpu.store import Store

DATA = ROOT / "examples/data"
GT, DT = DATA / "instances_val2014_100.json", DATA / "instances_val2014_fakebbox100_results.json"
FAST = ["--replicates", "50", "--permutations", "10"]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """State files of a model, of one that finds less, and of one whose scores differ by little."""
    folder = tmp_path_factory.mktemp("states")
    found = json.loads(DT.read_text())
    draw = random.Random(34)
    changed = {
        "old": found,
        "worse": [each for each in found if draw.random() < 0.6],
        "near": [{**each, "score": each["score"] + draw.uniform(-0.01, 0.01)} for each in found],
    }
    for name, detections in changed.items():
        (folder / f"{name}.json").write_text(json.dumps(detections))
        command = ["detect", "--gt", str(GT), "--dt", f"{folder}/{name}.json", "--quiet"]
        assert main([*command, "--save-state", f"{folder}/{name}.state"]) == OK
    return {name: f"{folder}/{name}.state" for name in changed}


def strict(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def pair(states: dict[str, str], *names: str) -> list[str]:
    return ["compare", *(states[name] for name in names), *FAST]


def test_numbers_are_those_of_compare(
    states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--seed",
        "3",
        "--confidence",
        "0.9",
        "--adjust",
        "holm",
        "--smallest-difference",
        "0.01",
        "--power",
        "0.9",
    ]
    assert main([*pair(states, "old", "worse"), *options, "--json", f"{tmp_path}/out.json"]) == OK
    expected = compare(
        {"old": states["old"], "worse": states["worse"]}, replicates=50, permutations=10, seed=3, confidence=0.9,
        adjust="holm", smallest_difference=0.01, power=0.9,
    )  # fmt: skip
    assert isinstance(expected, ComparisonResult)
    assert capsys.readouterr().out == f"{expected}\nwrote {tmp_path}/out.json\n"
    found = strict((tmp_path / "out.json").read_text())
    assert found["command"] == "compare" and found["gates"] == []
    assert {key: found[key] for key in expected.to_dict()} == json.loads(expected.to_json())
    assert [(each["name"], each["given"]) for each in found["models"]] == [(n, states[n]) for n in ("old", "worse")]
    assert all(len(each["sha256"]) == 64 and each["bytes"] > 0 for each in found["models"])


def test_gates_decide_the_status(states: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    gate = "delta_map < -0.003 and p_map < 0.05"
    assert main([*pair(states, "old", "worse"), "--quiet", "--fail-if", gate]) == FAILURE
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"valor-gpu compare: failed: {gate} holds: delta_map is -0.")
    assert main([*pair(states, "worse", "old"), "--quiet", "--fail-if", gate]) == OK
    assert main([*pair(states, "old", "near"), "--quiet", "--fail-if", gate, "--fail-if", "map < 0.1"]) == OK
    assert main([*pair(states, "old", "near"), "--quiet", "--fail-if", gate, "--fail-if", "map > 0.1"]) == FAILURE
    assert "failed: map > 0.1 holds: it is 0.5" in capsys.readouterr().err
    of_class = "delta_map_per_class/hot dog < 2 and p_map_per_class/hot dog < 0.05"
    assert main([*pair(states, "old", "worse"), "--quiet", "--fail-if", of_class]) == FAILURE
    assert f"{of_class} cannot be decided: there is no p_map_per_class/hot dog, " in capsys.readouterr().err


def test_a_name_that_is_none(states: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair(states, "old", "near"), "--quiet", "--fail-if", "delta_mop < 0"]) == BAD_INPUT
    assert "--fail-if: gate must name a number of the run but 'delta_mop' is none; did you mean" in (
        capsys.readouterr().err
    )


def test_files_for_servers(
    states: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    outputs = [f"{tmp_path}/{name}" for name in ("gates.xml", "gates.md", "page.html")]
    options = ["--junit", outputs[0], "--markdown", outputs[1], "--report", outputs[2], "--step-summary"]
    gates = ["--fail-if", "delta_map < -0.003 and p_map < 0.05", "--fail-if", "map < 0.1"]
    assert main([*pair(states, "old", "worse"), *options, *gates]) == FAILURE
    assert capsys.readouterr().out.splitlines()[-3:] == [f"wrote {path}" for path in outputs]
    [suite] = ElementTree.parse(outputs[0]).getroot()
    assert suite.attrib["tests"] == "2" and suite.attrib["failures"] == "1"
    names = {each.get("name") for each in suite.iter("property")}
    assert {"map", "delta_map", "p_map", "delta_map_low"} <= names and not any("/" in str(name) for name in names)
    text = Path(outputs[1]).read_text()
    assert text.startswith("### worse against old: ❌ 1 of 2 gates failed\n") and "| <code>map</code> | 0.5" in text
    assert summary.read_text() == "before\n" + text
    assert Path(outputs[2]).read_text().startswith("<!doctype html>")


def test_markdown_on_standard_output_stands_alone(states: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair(states, "old", "near"), "--markdown", "-"]) == OK
    shown = capsys.readouterr().out
    assert shown.startswith("### map ") and "wrote" not in shown
    assert main([*pair(states, "old", "near"), "--json", "-"]) == OK
    assert strict(capsys.readouterr().out)["command"] == "compare"


def test_three_models(states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three = pair(states, "old", "near", "worse")
    gates = ["--fail-if", "near vs old/delta_map < -0.1", "--fail-if", "worse vs near/delta_map < -0.1"]
    files = ["--json", f"{tmp_path}/out.json", "--markdown", f"{tmp_path}/out.md", "--report", f"{tmp_path}/out.html"]
    assert main([*three, *gates, *files]) == FAILURE
    said = capsys.readouterr()
    assert said.err.startswith("valor-gpu compare: failed: worse vs near/delta_map < -0.1 holds: it is -0.")
    expected = compare({name: states[name] for name in ("old", "near", "worse")}, replicates=50, permutations=10)
    assert not isinstance(expected, ComparisonResult)
    assert said.out.startswith(f"{expected}\n")
    found = strict((tmp_path / "out.json").read_text())
    assert list(found["comparisons"]) == ["near vs old", "worse vs old", "worse vs near"]
    assert found["comparisons"] == json.loads(json.dumps(expected.to_dict()))
    assert (tmp_path / "out.html").read_text().count('<section class="stack" id="pair-') == 3
    text = (tmp_path / "out.md").read_text()
    assert (
        text.startswith("### 3 pairs of models: ❌ 1 of 2 gates failed\n")
        and text.count("\n#### <code>") == 3
        and text.count("\n- <code>") == 3
    )
    assert main([*three, "--names", "a,b,c", "--baseline", "b", "--json", "-"]) == OK
    assert list(strict(capsys.readouterr().out)["comparisons"]) == ["a vs b", "c vs b"]


def test_clusters_of_images(states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = [each["id"] for each in json.loads(GT.read_text())["images"]]
    clusters = {image: f"video {place // 4}" for place, image in enumerate(images)}
    path = tmp_path / "videos.csv"
    path.write_text("image,cluster\n" + "".join(f"{image},{cluster}\n" for image, cluster in clusters.items()))
    assert main([*pair(states, "old", "worse"), "--cluster-file", str(path), "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    expected = compare(states["old"], states["worse"], clusters=clusters, replicates=50, permutations=10)
    assert isinstance(expected, ComparisonResult)
    assert found["values"] == json.loads(expected.to_json())["values"] and found["counts"]["clusters"] == 25


def test_clusters_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(34)
    target = draw.integers(0, 3, 120)
    paths = []
    for name, right in (("a", 0.7), ("b", 0.8)):
        predicted = np.where(draw.random(120) < right, target, (target + 1) % 3)
        lines = "".join(f"{t},{p}\n" for t, p in zip(target, predicted))
        (tmp_path / f"{name}.csv").write_text(f"t,p\n{lines}")
        paths.append(f"{tmp_path}/{name}.state")
        command = ["classify", "--data", f"{tmp_path}/{name}.csv", "--target", "t", "--pred", "p", "--quiet"]
        assert main([*command, "--save-state", paths[-1]]) == OK
    clusters = [f"patient {row // 4}" for row in range(120)]
    (tmp_path / "patients.csv").write_text("cluster\n" + "".join(f"{each}\n" for each in clusters))
    assert main(["compare", *paths, *FAST, "--cluster-file", f"{tmp_path}/patients.csv", "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    expected = compare(*paths, clusters=clusters, replicates=50, permutations=10)
    assert isinstance(expected, ComparisonResult)
    assert found["values"] == json.loads(expected.to_json())["values"] and found["counts"]["clusters"] == 30


def test_runs_of_a_store(states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = f"{tmp_path}/runs.sqlite"
    for name in ("old", "worse"):
        detections = states[name].replace(".state", ".json")
        command = [
            "detect",
            "--gt",
            str(GT),
            "--dt",
            detections,
            "--quiet",
            "--store",
            store,
            "--name",
            f"{name} model",
        ]
        assert main(command) == OK
    runs = ["compare", "old model", "worse model", *FAST, "--store", store]
    assert main([*runs, "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    assert [(each["name"], each["sha256"]) for each in found["models"]] == [("old model", None), ("worse model", None)]
    assert main([*pair(states, "old", "worse"), "--json", "-"]) == OK
    assert strict(capsys.readouterr().out)["values"] == found["values"]
    mixed = ["compare", states["near"], "worse model", *FAST, "--store", store, "--json", "-"]
    assert main(mixed) == OK
    assert [each["name"] for each in strict(capsys.readouterr().out)["models"]] == ["near", "worse model"]
    assert main(["compare", "old model", "worst model", *FAST, "--store", store, "--quiet"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert f"MODEL must be a run of {store} or a state file but 'worst model' is neither; did you mean" in said


def test_runs_of_texts(states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, draw = f"{tmp_path}/runs.sqlite", np.random.default_rng(3)
    with Store(path) as store:
        for name, gain in (("old", 0.0), ("new", 0.2), ("best", 0.3)):
            rows = make_rows(40, document=[f"d{row // 4}" for row in range(40)])
            make_run(store, ["f1_score"], rows, make_scores("f1_score", (draw.random(40) + gain).tolist()), name)
        runs = {run.name: run for run in store.runs(10)}
        for column, options in ((None, []), ("document", ["--cluster-column", "document"])):
            files = ["--report", f"{tmp_path}/page.html", "--markdown", f"{tmp_path}/page.md", "--json", "-"]
            assert main(["compare", "old", "new", *FAST, "--store", path, *options, *files]) == OK
            found = strict(capsys.readouterr().out)
            chosen: dict[str, Any] = {"clusters": column, "replicates": 50, "permutations": 10}
            expected = compare({"old": runs["old"], "new": runs["new"]}, **chosen)
            assert isinstance(expected, ComparisonResult)
            assert found["values"] == json.loads(expected.to_json())["values"]
            assert found["values"]["difference"]["mean_f1_score"] > 0.1
            assert found["counts"].get("clusters") == (10 if column else None)
            assert "mean_f1_score" in (tmp_path / "page.md").read_text() and (tmp_path / "page.html").exists()
        gate = ["--fail-if", "delta_mean_f1_score < 0 and p_mean_f1_score < 0.05", "--quiet"]
        assert main(["compare", "old", "new", *FAST, "--store", path, *gate]) == OK
        assert main(["compare", "new", "old", *FAST, "--store", path, *gate]) == FAILURE
        assert "delta_mean_f1_score is -0." in capsys.readouterr().err
        assert main(["compare", "old", "new", "best", *FAST, "--store", path, "--json", "-"]) == OK
        assert list(strict(capsys.readouterr().out)["comparisons"]) == ["new vs old", "best vs old", "best vs new"]
    mixed = ["compare", states["old"], "new", *FAST, "--store", path, "--quiet"]
    assert main(mixed) == BAD_INPUT
    assert "old must be a run of texts, as another model is, or its result but is Result" in capsys.readouterr().err


def test_clusters_are_given_in_the_way_of_the_models(
    states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, clusters = f"{tmp_path}/runs.sqlite", tmp_path / "clusters.csv"
    clusters.write_text("cluster\na\nb\nc\n")
    with Store(path) as store:
        for name in ("old", "new"):
            make_run(store, ["f1_score"], make_rows(3), make_scores("f1_score", (1, 0.5, 0)), name)
    assert main(["compare", "old", "new", "--store", path, "--quiet", "--cluster-file", str(clusters)]) == BAD_INPUT
    said = "--cluster-file must be left out with runs of texts: --cluster-column names their column"
    assert said in capsys.readouterr().err
    assert main([*pair(states, "old", "near"), "--quiet", "--cluster-column", "document"]) == BAD_INPUT
    said = "--cluster-column must be left out with models of images and rows: use --cluster-file"
    assert said in capsys.readouterr().err
    both = ["--cluster-column", "document", "--cluster-file", str(clusters)]
    assert main([*pair(states, "old", "near"), "--quiet", *both]) == BAD_INPUT
    assert "--cluster-column and --cluster-file must not both be given" in capsys.readouterr().err


def test_slices(states: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = [each["id"] for each in json.loads(GT.read_text())["images"]]
    table = tmp_path / "images.csv"
    table.write_text("image_id,hour\n" + "".join(f"{image},{place % 24}\n" for place, image in enumerate(images)))
    options = ["--by", "hour", "--by-bins", "hour=0,12,24", "--images-table", str(table)]
    gate = "delta_map < 0 and map < 0.1"
    assert main([*pair(states, "old", "worse"), *options, "--fail-if", gate, "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    expected = compare(
        states["old"], states["worse"], replicates=50, permutations=10, table=str(table), by={"hour": [0, 12, 24]}
    )
    assert isinstance(expected, ComparisonResult)
    assert found["values"] == json.loads(expected.to_json())["values"]
    slices = list(found["values"]["difference"]["slices"])
    assert len(slices) == 2
    name = f"delta_slices/{slices[0]}/map"
    said = f'"{name}" < 2'
    assert main([*pair(states, "old", "worse"), *options, "--quiet", "--fail-if", said]) == FAILURE
    assert f"{name}" in capsys.readouterr().err


def keys_of(document: Any, path: str = "") -> set[str]:
    """Keys as docs/json.md names them: objects of lists without their places, names of numbers as ``*``."""
    if isinstance(document, list):
        return {key for each in document for key in keys_of(each, path)}
    if not isinstance(document, dict):
        return set()
    starred = path in ("gates.numbers", "gates.reasons")
    open_end = path.startswith(
        ("values.", "counts", "reasons", "intervals", "interval_choices", "signature.tests", "provenance.")
    )
    found = set()
    for key, value in document.items() if not open_end else ():
        whole = f"{path}.{'*' if starred else key}".lstrip(".")
        found |= {whole} | keys_of(value, whole)
    return found


def test_every_key_is_explained_and_every_explained_key_is_written(
    states: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    written: set[str] = set()
    gates = ["--fail-if", "map < 0.1", "--fail-if", "map_per_class/horse < 0.1 and map < 0.1"]
    for options in (
        gates,
        ["--smallest-difference", "0.01", "--observed-power", "--fail-if", "p_mar_per_class/horse < 0"],
    ):
        main([*pair(states, "old", "near"), *options, "--json", "-"])
        written |= keys_of(strict(capsys.readouterr().out))
    part = (ROOT / "docs/json.md").read_text().split("\n## `compare`\n")[1].split("\n## ")[0]
    assert written == set(re.findall(r"^\| `([^`]+)`", part, re.MULTILINE))


BAD = [
    (["{old}"], "MODEL must be given at least twice but is given once: {old}"),
    (["{old}", "-"], "MODEL must be a file but - is standard input"),
    (["{old}", "{f}/none"], "MODEL must be a state file but {f}/none does not exist: --store FILE is for runs"),
    (["{old}", "{f}"], "MODEL must be a state file but {f} is a folder"),
    (["{old}", "/dev/null"], "MODEL must be a regular file but /dev/null is a pipe or a device: save it as a file"),
    (["{old}", "{f}/rows.csv"], "path must be a file that save_state wrote but {f}/rows.csv is another kind of file"),
    (["{old}", "{near}", "--names", "a"], "--names must be 2 different names with commas between them, one for each"),
    (["{old}", "{near}", "--names", "a,a"], "--names must be 2 different names"),
    (["{old}", "{near}", "--baseline", "b"], "baseline must be one of the models, or the name of one in a mapping"),
    (["{old}", "{near}", "--store", "{f}/none"], "--store must be a file of runs but {f}/none does not exist"),
    (["{old}", "{near}", "--cluster-file", "{f}/none"], "--cluster-file must be a file but {f}/none is not there"),
    (["{old}", "{near}", "--cluster-file", "{f}/rows.csv"], "{f}/rows.csv must have the columns image and cluster but"),
    (["{old}", "{near}", "--images-table", "{f}/rows.csv"], "--images-table needs --by COLUMN but that is missing"),
    (["{old}", "{near}", "--by", "size", "--by-bins", "hour=6"], "--by-bins must be for a column of --by but hour"),
    (["{old}", "{near}", "--step-summary"], "--step-summary needs the environment variable GITHUB_STEP_SUMMARY but"),
    (["{old}", "{near}", "--json", "-", "--markdown", "-"], "--json and --markdown must not both be standard output"),
    (["{old}", "{near}", "--json", "{near}"], "--json must be another file than MODEL but both are {near}"),
    (["{old}", "{near}", "--junit", "{f}/x", "--json", "{f}/x"], "--json must be another file than --junit but both"),
    (["{old}", "{near}", "--junit", "-"], "--junit must be a file but - is standard output"),
    (["{old}", "{near}", "--report", "-"], "--report must be a file but - is standard output"),
    (["{old}", "{near}", "--confidence", "2"], "confidence must"),
    (["{old}", "{near}", "--smallest-difference", "0"], "smallest_difference must be above 0"),
]  # fmt: skip


def test_the_page_of_a_job_is_no_other_file(
    states: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = states["old"], states["near"]
    before = Path(new).read_bytes()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", new)
    assert main(["compare", old, new, *FAST, "--step-summary"]) == BAD_INPUT
    message = f"--step-summary (GITHUB_STEP_SUMMARY) must be another file than MODEL but both are {new}"
    assert message in capsys.readouterr().err and Path(new).read_bytes() == before


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_options(
    arguments: list[str], message: str, states: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    known = {"f": str(tmp_path), **states}
    assert main(["compare", *(each.format(**known) for each in arguments), *FAST, "--quiet"]) == BAD_INPUT
    shown = capsys.readouterr().err
    assert shown.startswith("valor-gpu compare: error: ") and message.format(**known) in shown
