"""The recipe "Add a ratio" of CONTRIBUTING.md, carried out as it stands there in a copy of the checkout."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from tests.checkout import ROOT, run

PROGRAM = """
import doctest, inspect, json, torch, valor_gpu
from valor_gpu import functional
from valor_gpu.classification import ratio_metrics
from valor_gpu.classification import BinaryInformedness, Informedness, MulticlassInformedness, MultilabelInformedness
from valor_gpu.functional.classification import multiclass_informedness

truth, found = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 0, 0, 1, 1, 0])
found_of_three, truth_of_three = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([0, 1, 2, 1, 0, 2])
metric = MulticlassInformedness(3, average="none")
metric.update(found_of_three, truth_of_three)
print(json.dumps({
    "file": valor_gpu.__file__,
    "binary": BinaryInformedness()(found, truth).item(),
    "task": Informedness("binary")(found, truth).item(),
    "functional": functional.informedness(found, truth, "binary").item(),
    "multilabel": MultilabelInformedness(2)(found.reshape(3, 2), truth.reshape(3, 2)).item(),
    "classes": metric.compute().tolist(),
    "function": functional.multiclass_informedness(found_of_three, truth_of_three, 3, "none").tolist(),
    "same": functional.multiclass_informedness is multiclass_informedness and valor_gpu.Informedness is Informedness,
    "doc": Informedness.__doc__,
    "failed": doctest.testmod(ratio_metrics).failed,
    "parameters": list(inspect.signature(MulticlassInformedness).parameters),
}))
"""


SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add a ratio\n")[2].partition("\n## ")[0]


def code() -> dict[str, str]:
    """Returns the file that a step names first to the code block of the step."""
    steps = re.split(r"^(?=\d\. )", SECTION, flags=re.MULTILINE)[1:]
    blocks = {step: re.search(r"^   ```python\n(.*?)^   ```$", step, re.DOTALL | re.MULTILINE) for step in steps}
    paths = {step: re.search(r"`(valor_gpu/[\w/]+\.py)`", step) for step in steps}
    return {str(paths[step] and paths[step][1]): textwrap.dedent(block[1]) for step, block in blocks.items() if block}


@pytest.mark.slow
def test_steps_make_the_ratio_under_all_its_names(tmp_path: Path) -> None:
    unwanted = shutil.ignore_patterns("__pycache__", "web", "evaluation", "judge")
    for folder in ("valor_gpu", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unwanted, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    steps = code()
    assert [Path(path).name for path in steps] == ["ratios.py", "ratio_metrics.py", "task_names.py"]
    for path, block in steps.items():
        source, mark = (tmp_path / path).read_text(), "TABLE = (\n"
        assert path.endswith("task_names.py") == (mark in source)
        changed = source.replace(mark, f"{mark}    {block.strip()},\n") if mark in source else f"{source}\n\n{block}"
        (tmp_path / path).write_text(changed)
    commands = re.findall(r"^   (?:python|ruff) (.*)$", SECTION, re.MULTILINE)
    assert commands[:2] == ["format valor_gpu tests", "tools/make_names.py"]
    run(sys.executable, commands[1], cwd=tmp_path)
    found = json.loads(run(sys.executable, "-c", PROGRAM, cwd=tmp_path))
    assert found["file"] == str(tmp_path / "valor_gpu/__init__.py")
    # Recall 1/2, specificity 3/4. Of each of the three classes: recall 1/2, specificity 3/4.
    assert found["binary"] == found["task"] == found["functional"] == 0.25
    assert found["classes"] == found["function"] == [0.25] * 3
    # Labels: truth 001, 001; found 001, 010: 1/1 + 2/2 - 1 and 0/1 + 1/2 - 1.
    assert found["multilabel"] == 0.25
    assert found["failed"] == 0 and found["same"] and "num_classes: C, in the multiclass task" in found["doc"]
    assert found["parameters"] == [
        "num_classes", "top_k", "average", "multidim_average", "ignore_index", "validate_args", "kwargs"
    ]  # fmt: skip
    for path, name in (("classification/__init__", "class MultilabelInformedness(_Informedness)"),
                       ("__init__", "    MulticlassInformedness as MulticlassInformedness,"),
                       ("functional/classification", "def binary_informedness("),
                       ("functional/__init__", "import informedness as informedness")):  # fmt: skip
        assert name in (tmp_path / f"valor_gpu/{path}.pyi").read_text()
    for command in (["check"], ["format", "--check"]):
        run(sys.executable, "-m", "ruff", *command, *steps, cwd=tmp_path)
