"""The recipe "Add an op" of CONTRIBUTING.md, carried out as it stands there in a copy of the checkout."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests import recipes
from tests.checkout import ROOT, run

TITLE = "Add an op"
PROGRAM = """
import doctest, json, torch, valor_gpu
from torch._subclasses.fake_tensor import FakeTensorMode
from valor_gpu.ops.count_positive import op
from valor_gpu.ops import _library

(row,) = (each for each in _library.backends() if each.name == "count_positive")
with FakeTensorMode():
    fake = op.count_positive(torch.empty((3, 2), dtype=torch.float64))
print(json.dumps({
    "file": valor_gpu.__file__,
    "cpu": row.cpu.kind,
    "cuda": [row.cuda.kind, row.cuda.reason],
    "doctest": doctest.testmod(op)._asdict(),
    "fake": [list(fake.shape), str(fake.dtype)],
}))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Returns a copy of the checkout with the files of the recipe. Of C++ it has nothing else to compile."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.so", "_build.json", "*.cpp", "*.cu", "data", "browser")
    for folder in ("valor_gpu", "tools", "csrc", "testing", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unwanted, symlinks=True)
    for path in ("pyproject.toml", "setup.py", "README.md", "csrc/cpu/abi.cpp", ".clang-format"):
        shutil.copy(ROOT / path, tmp_path / path)
    for path, block in recipes.code(TITLE).items():
        if path == "testing/registry.py":
            source = (tmp_path / path).read_text()
            mark = "\nfrom testing import examples_queries as queries\n"
            source = source.replace(mark, f"\nfrom testing import examples_positive as positive{mark}")
            block = source.replace("    for row in (\n", f"    for row in (\n        {block.strip()},\n")
            assert block.count("positive") == 5
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(block)
    (tmp_path / "valor_gpu/ops/count_positive/__init__.py").write_text('"""Counts of positive values in rows."""\n')
    switches = tmp_path / "valor_gpu/ops/_switches.py"
    names = switches.read_text()
    switches.write_text(
        names.replace('"count_panoptic", "count_pixels",', '"count_panoptic", "count_pixels", "count_positive",')
    )
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_steps_make_the_op(checkout: Path) -> None:
    files = list(recipes.code(TITLE))
    names = ["count_positive.h", "count_positive.cpp", "op.py", "registry.py", "examples_positive.py"]
    assert [Path(path).name for path in files] == [*names, "test_count_positive.py"]
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=checkout, VALOR_GPU_CPU="1")
    made = json.loads((checkout / "valor_gpu/_build.json").read_text())
    found = json.loads(run(sys.executable, "-c", PROGRAM, cwd=checkout))
    assert found["file"] == str(checkout / "valor_gpu/__init__.py"), made
    assert found["cpu"] == "C++" and found["cuda"] == ["reference", "two torch kernels count all rows"]
    assert found["doctest"] == {"failed": 0, "attempted": 1} and found["fake"] == [[3], "torch.int64"]
    ran = run(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", files[-1], cwd=checkout)
    assert "2 passed" in ran
    for command in (["check"], ["format", "--check"]):
        run(sys.executable, "-m", "ruff", *command, *(path for path in files if path.endswith(".py")), cwd=checkout)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_a_wrong_kernel_fails_the_test_of_the_recipe(checkout: Path) -> None:
    path = checkout / "csrc/core/count_positive.h"
    path.write_text(path.read_text().replace("> 0;", ">= 0;"))
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=checkout, VALOR_GPU_CPU="1")
    program = "import tests.ops.test_count_positive as t; t.test_kernels_equal_the_definition_which_is_that_of_numpy()"
    with pytest.raises(AssertionError, match="special values"):
        run(sys.executable, "-c", program, cwd=checkout)
