"""An environment of numpy alone, as after ``pip install --no-deps``: what runs there, and what says what to type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import valor_gpu
from valor_gpu import native
from valor_gpu.errors import LINES

ROOT = Path(__file__).parent.parent
DATA = ROOT / "examples" / "data"
GUIDE = (ROOT / "docs/guides/without_torch.md").read_text()
"""Its table says what runs and what does not: names in backticks of its second and third column."""


def _names(column: int) -> tuple[str, ...]:
    rows = [line.split("|") for line in GUIDE.partition("## What runs")[2].splitlines() if line.startswith("| ")]
    return tuple(re.findall(r"`(valor_gpu\.[\w.]+)`", " ".join(row[column] for row in rows)))


FREE, BOUND = _names(2), _names(3)
MODULES = ("valor_gpu.metric", "valor_gpu.detection.mean_ap", "valor_gpu.ops.boxes.op", "valor_gpu.functional.once")
PROGRAM = """
import contextlib, importlib.util, io, sys
import valor_gpu
from valor_gpu.cli import main

def tried(action):
    try:
        action()
        return "fine"
    except Exception as error:
        return f"{type(error).__name__} {error}"

def command(*arguments):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = main(arguments)
    return f"{status} {text.getvalue().strip().splitlines()[-1:]}"

DATA, OUT = sys.argv[1:]
DETECT = ["detect", "--gt", f"{DATA}/instances_val2014_100.json"]
DETECT += ["--dt", f"{DATA}/instances_val2014_fakebbox100_results.json"]
CLASSIFY = ["classify", "--data", f"{DATA}/digits_predictions.csv", "--target", "digit", "--scores-prefix", "p_"]
TEXT = ["text", "--prediction", "a cat", "--reference", "a cat", "--metrics", "f1_score,rouge,chrf,wer,valor_bleu"]
with open(f"{OUT}/rows.jsonl", "w") as rows:
    rows.write('{"answer": "a cat", "ground_truth": "the cat"}\\n')
EVAL = ["eval", "run", "--data", f"{OUT}/rows.jsonl", "--metrics", "f1_score", "--store", f"{OUT}/runs.sqlite"]
ELSEWHERE = [*DETECT, "--device", "cuda"], [*CLASSIFY, "--device", "cuda:1"]
for arguments in (DETECT, CLASSIFY, TEXT, EVAL, ["doctor"], *ELSEWHERE):
    print(arguments[0], command(*arguments))
for name in sys.stdin.read().split():
    package, _, attribute = name.rpartition(".")
    print(name, tried(lambda: getattr(importlib.import_module(package), attribute)))
for name in MODULES:
    print(name, tried(lambda: importlib.import_module(name)))
    print(name, tried(lambda: exec(f"import {name}", {"__name__": "valor_gpu_user"})))
for name in ("Accuracy", "MetricCollection", "wrappers", "Acuracy"):
    print(name, tried(lambda: getattr(valor_gpu, name)))
print("other", tried(lambda: importlib.import_module("torch")), importlib.util.find_spec("torch"))
importlib.reload(valor_gpu)
print("finders", [getattr(finder, "__module__", "") for finder in sys.meta_path].count("valor_gpu._missing"))
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each line of the program says, by its first word, in a process that sees numpy and this package alone."""
    folder = tmp_path_factory.mktemp("numpy_alone")
    site = Path(np.__file__).parent.parent
    for path in (site / "numpy", site / "numpy.libs", Path(valor_gpu.__file__).parent):
        if path.exists():
            (folder / path.name).symlink_to(path)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    run = subprocess.run(
        [sys.executable, "-S", "-c", f"{MODULES = }\n{PROGRAM}", str(DATA), str(folder)],
        input=" ".join(FREE + BOUND), capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    found: dict[str, str] = {"modules": lines.pop()}
    for line in lines:
        name, _, rest = line.partition(" ")
        found[f"{name} again" if name in found else name] = rest
    return found


needs_library = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))


@needs_library
@pytest.mark.parametrize("command", ["detect", "classify", "text", "eval", "doctor"])
def test_commands_run(command: str, said: dict[str, str]) -> None:
    assert said[command].startswith("0 "), said[command]


@pytest.mark.parametrize("name", FREE)
def test_names_that_need_no_torch_are_there(name: str, said: dict[str, str]) -> None:
    assert said[name] == "fine"


@pytest.mark.parametrize("name", BOUND)
def test_other_names_say_the_line_to_type(name: str, said: dict[str, str]) -> None:
    assert said[name] == f"MissingPackageError {name} needs torch: pip install {LINES['torch']}"


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_the_line_to_type(name: str, said: dict[str, str]) -> None:
    line = f"MissingPackageError {name} needs torch: pip install {LINES['torch']}"
    assert (said[name], said[f"{name} again"]) == (line, line)


def test_names_at_the_top_say_the_line_to_type(said: dict[str, str]) -> None:
    absent = "MissingNameError module 'valor_gpu' has no attribute"
    line = f"if torchmetrics has it: pip install {LINES['torchmetrics']}"
    assert said["Accuracy"] == f"MissingPackageError valor_gpu.Accuracy needs torch: pip install {LINES['torch']}"
    assert said["MetricCollection"] == f"{absent} 'MetricCollection'; {line}"
    assert said["wrappers"] == f"{absent} 'wrappers'; {line}"
    assert said["Acuracy"] == f"{absent} 'Acuracy'; did you mean 'Accuracy'?"


def test_imports_of_others_fail_as_ever(said: dict[str, str]) -> None:
    assert said["other"] == "ModuleNotFoundError No module named 'torch' None"
    assert said["finders"] == "1"


@needs_library
@pytest.mark.parametrize(("command", "device"), [("detect again", "cuda"), ("classify again", "cuda:1")])
def test_commands_on_other_devices_say_the_line_to_type(command: str, device: str, said: dict[str, str]) -> None:
    assert said[command].startswith("1 ") and f"device '{device}' needs torch: pip install " in said[command]


def test_nothing_else_was_there(said: dict[str, str]) -> None:
    assert {name for name in said["modules"].split() if not name.startswith("_")} - {"cython_runtime"} == {
        "numpy",
        "valor_gpu",
    }


def test_the_guide_says_the_versions_of_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    wanted = re.findall(r"'([\w-]+>=[\d.]+)'", GUIDE.partition("## What runs")[0])
    assert len(wanted) > 10 and [each for each in wanted if f'"{each}"' not in project] == []
    assert len(FREE) > 20 and len(BOUND) > 10 and f"pip install {LINES['torch']}\n" in GUIDE


def test_lines_name_the_versions_of_the_project() -> None:
    declared = re.search(r"^dependencies = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None
    wanted = re.findall(r'"(.*?)"', declared[1])
    assert LINES["torch"] == " ".join(f"'{each}'" for each in wanted if each.startswith("torch"))
    assert LINES["numpy"] == " ".join(f"'{each}'" for each in wanted if each.startswith("numpy"))
    assert set(LINES) == {re.split(r"\W", each)[0] for each in wanted}
