"""The GitHub action ``valor-gpu-gate``: its scripts run under bash as a runner runs them, hostile inputs included."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from valor_gpu.cli import OK, main

ACTION = ROOT / ".github/actions/valor-gpu-gate/action.yml"
DATA = ROOT / "examples/data"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return found


@dataclass(frozen=True)
class Outcome:
    """What the steps of the action left: exit status, outputs, the summary of the job, and what was printed."""

    status: int
    outputs: dict[str, str]
    summary: str
    printed: str


def run_action(folder: Path, **given: str) -> Outcome:
    """Runs the steps until one fails, with expressions put in their environment alone, as a runner does."""
    inputs = {name: each.get("default", "") for name, each in action()["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    programs, files = folder / "programs", {name: folder / name for name in ("output", "summary")}
    programs.mkdir()
    for name, words in (("valor-gpu", "-m valor_gpu"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (programs / name).chmod(0o755)
    runner = {
        "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(files["output"]), "GITHUB_STEP_SUMMARY": str(files["summary"]), "HOME": str(folder),
    }  # fmt: skip
    for path in files.values():
        path.touch()
    printed, status = "", 0
    for step in action()["runs"]["steps"]:
        script = folder / "script.sh"
        script.write_text(step["run"])
        environment = {name: evaluated(value, inputs) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=folder, env=runner | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        printed, status = printed + done.stdout + done.stderr, done.returncode
        if status:
            break
    outputs = dict(line.split("=", 1) for line in files["output"].read_text().splitlines())
    return Outcome(status, outputs, files["summary"].read_text(), printed)


def evaluated(text: str, inputs: Mapping[str, str]) -> str:
    return EXPRESSION.sub(lambda found: inputs[found[1].removeprefix("inputs.")], text)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("states")
    detections = json.loads((DATA / "instances_val2014_fakebbox100_results.json").read_text())
    for name, kept in (("old", detections), ("worse", detections[::2])):
        (folder / f"{name}.json").write_text(json.dumps(kept))
        files = ["--gt", str(DATA / "instances_val2014_100.json"), "--dt", f"{folder}/{name}.json"]
        assert main(["detect", *files, "--quiet", "--save-state", f"{folder}/{name}.state"]) == OK
    return {name: f"{folder}/{name}.state" for name in ("old", "worse")}


GATES = "delta_map < -0.003 and p_map < 0.05\n\nmap < 0.1\n"
FAST = "--replicates=50\n--permutations=0\n"


def test_no_expression_stands_in_a_script() -> None:
    """An expression in a script would be run as part of it."""
    found = action()
    assert found["runs"]["using"] == "composite"
    for step in found["runs"]["steps"]:
        assert "${{" not in step["run"] and step["shell"] == "bash"
        assert all(re.fullmatch(r"\$\{\{ inputs\.[a-z-]+ \}\}", value) for value in step["env"].values())
        used = {EXPRESSION.findall(value)[0].removeprefix("inputs.") for value in step["env"].values()}
        assert used <= set(found["inputs"])
    compare = next(step for step in found["runs"]["steps"] if step.get("id") == "compare")
    for name, each in found["outputs"].items():
        assert each["value"] == f"${{{{ steps.compare.outputs.{name} }}}}" and f"{name}=%s" in compare["run"]


def test_a_gate_that_holds(states: dict[str, str], tmp_path: Path) -> None:
    found = run_action(
        tmp_path, version="installed", baseline=states["old"], candidate=states["worse"], fail_if=GATES, args=FAST,
        report="page.html", junit="gates.xml",
    )  # fmt: skip
    assert (found.status, found.outputs["failed"]) == (1, "true"), found.printed
    document = json.loads(Path(found.outputs["json"]).read_text())
    assert [gate["failed"] for gate in document["gates"]] == [True, False]
    assert found.summary.startswith("### worse against old: ❌ 1 of 2 gates failed\n")
    assert (tmp_path / "page.html").stat().st_size > 1000 and 'failures="1"' in (tmp_path / "gates.xml").read_text()


def test_no_gate_that_holds(states: dict[str, str], tmp_path: Path) -> None:
    found = run_action(
        tmp_path, version="installed", baseline=states["worse"], candidate=states["old"],
        fail_if=GATES.replace("\n", "\r\n"), args=FAST,
    )  # fmt: skip
    assert (found.status, found.outputs["failed"]) == (0, "false"), found.printed
    assert found.summary.startswith("### old against worse: ✅ 2 gates passed\n")
    assert Path(found.outputs["json"]).is_file()
    token = re.search(r"^::stop-commands::([0-9a-f]{32})$", found.printed, re.MULTILINE)
    assert token is not None and f"\n::{token[1]}::\n" in found.printed


def test_models_that_cannot_be_compared(states: dict[str, str], tmp_path: Path) -> None:
    found = run_action(tmp_path, version="installed", baseline=states["old"], candidate="none.state", fail_if=GATES)
    assert (found.status, found.outputs) == (2, {"failed": "true", "json": ""})
    assert "MODEL must be a state file but none.state does not exist" in found.printed


HOSTILE = [
    "$(touch hacked)",
    "`touch hacked`",
    "; touch hacked",
    "x\ntouch hacked",
    '"; touch hacked; "',
    "--report=hacked",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["baseline", "candidate", "fail_if", "version"])
def test_hostile_inputs_run_nothing(name: str, text: str, states: dict[str, str], tmp_path: Path) -> None:
    given = {"version": "installed", "baseline": states["old"], "candidate": states["worse"], name: text}
    found = run_action(tmp_path, **given)
    assert found.status == 2, found.printed
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_hostile_options_and_paths_run_nothing(text: str, states: dict[str, str], tmp_path: Path) -> None:
    models = {"baseline": states["old"], "candidate": states["worse"]}
    found = run_action(tmp_path, version="installed", **models, args=FAST + text, report=text.replace("/", ""))
    assert found.status == 2, found.printed
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("version", "requirement"), [("", "valor_gpu"), ("0.9.0", "valor_gpu==0.9.0"), ("1.0rc1", "valor_gpu==1.0rc1")]
)
def test_what_is_installed(version: str, requirement: str, tmp_path: Path) -> None:
    install, _ = action()["runs"]["steps"]
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VERSION": version}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", install["run"]], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"-I|-m|pip|install|--quiet|--disable-pip-version-check|{requirement}|"
