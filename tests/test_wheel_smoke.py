"""The check of a wheel finds each fault that it looks for. tests/test_packaging.py runs it on a wheel."""

from __future__ import annotations

import re
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tools import wheel_smoke
from tools.commands import CheckError, run


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment without any package."""
    venv.create(tmp_path / "empty", symlinks=True)
    return tmp_path / "empty/bin/python"


def package(python: Path, text: str) -> None:
    """Puts a package named valor_gpu and one named numpy into an environment."""
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name, source in (("valor_gpu", text), ("numpy", "")):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(source)


def command(python: Path, text: str) -> None:
    """Makes a script in the place of the command valor-gpu."""
    script = python.parent / "valor-gpu"
    script.write_text(f"#!{python}\nprint({text!r})\n")
    script.chmod(0o755)


def test_the_import_is_measured_and_must_come_from_the_environment(python: Path, tmp_path: Path) -> None:
    package(python, "")
    assert re.fullmatch(
        r"import valor_gpu: 1 modules, [\d.]+ ms of CPU time", wheel_smoke.check_import(python, tmp_path)
    )
    (tmp_path / "valor_gpu").mkdir()  # in the current folder, which comes first on the path
    (tmp_path / "valor_gpu/__init__.py").write_text("")
    with pytest.raises(CheckError, match=r"must come from the wheel but came from .*/valor_gpu/__init__\.py"):
        wheel_smoke.check_import(python, tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import numpy", "must load none of numpy, torch, torchmetrics but loads numpy"),
        ("import asyncio, unittest.mock, http.server", r"must load at most 50 modules but loads \d+: "),
    ],
)
def test_an_import_that_loads_too_much_is_found(source: str, message: str, python: Path, tmp_path: Path) -> None:
    package(python, source)
    with pytest.raises(CheckError, match=message):
        wheel_smoke.check_import(python, tmp_path)


def test_wrong_words_of_the_command_are_shown(python: Path, tmp_path: Path) -> None:
    command(python, f"head\n{wheel_smoke.PRECISION}\n  libvalor_cpu.so loaded, built by c++")
    assert wheel_smoke.check_detect(python, tmp_path) == "valor-gpu detect of COCO files, without torch"
    assert wheel_smoke.check_doctor(python, tmp_path) == "valor-gpu doctor: the C++ kernels are there"
    command(python, f"{wheel_smoke.PRECISION}1\n  libvalor_cpu.so was not built")
    with pytest.raises(CheckError, match=r"valor-gpu detect must print .* = 0\.505 but printed:\n.*0\.5051"):
        wheel_smoke.check_detect(python, tmp_path)
    with pytest.raises(CheckError, match=r"doctor must find libvalor_cpu\.so loaded but says:\n(.*\n)*.*was not built"):
        wheel_smoke.check_doctor(python, tmp_path)
    with pytest.raises(CheckError, match="torch must be absent here but is found: ModuleSpec"):
        wheel_smoke.check_detect(Path(sys.executable), tmp_path)


def test_the_first_example_must_print_what_is_below_it(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckError, match=r"failed:\n(.*\n)*ModuleNotFoundError: No module named 'torch'"):
        wheel_smoke.check_example(python, tmp_path)
    monkeypatch.setattr(wheel_smoke, "ROOT", tmp_path)
    for text, message in (("1", ""), ("2", r"must print\n1\nbut printed\n2\n")):
        (tmp_path / "README.md").write_text(f"```bash\nls\n```\n\n```python\nprint({text})\n```\n\n```text\n1\n```\n")
        if not message:
            assert wheel_smoke.check_example(python, tmp_path) == "the first example of README.md"
            continue
        with pytest.raises(CheckError, match=message):
            wheel_smoke.check_example(python, tmp_path)
    with pytest.raises(CheckError, match="must have a block of Python with its output below it"):
        wheel_smoke.first_example("```python\nprint(1)\n```\n\ntext\n\n```text\n1\n```\n")


def test_only_what_is_needed_is_linked(python: Path, tmp_path: Path) -> None:
    found = wheel_smoke.needed(["torchmetrics"])
    assert found.keys() >= {"torchmetrics", "torch", "numpy", "lightning-utilities", "packaging", "typing-extensions"}
    assert found.keys().isdisjoint({"pytest", "valor-gpu", "pycocotools", "matplotlib", "scikit-learn"})
    with pytest.raises(metadata.PackageNotFoundError, match="no-such-name"):
        wheel_smoke.needed(["no_such.name"])
    (site := tmp_path / "site").mkdir()
    wheel_smoke.link([found["packaging"], found["packaging"]], site)
    assert {path.name.partition("-")[0] for path in site.iterdir()} == {"packaging"}
    program = "import packaging.version as v; print(v.Version('1.0').major)"
    assert run(python, "-c", program, cwd=tmp_path, PYTHONPATH=str(site)) == "1\n"


def test_a_wheel_that_is_not_there_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert wheel_smoke.main(["/nowhere/valor_gpu.whl"]) == 1
    assert capsys.readouterr().err == "wheel-smoke: /nowhere/valor_gpu.whl is no file: build a wheel with make wheel\n"


def test_the_workflow_installs_the_wheel_in_every_python_that_the_package_names() -> None:
    workflow = ROOT / ".github/workflows/wheels.yml"
    if not workflow.exists():
        pytest.skip("the source archive has no workflows")
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    [matrix] = re.findall(r"^        python: \[(.+)\]$", workflow.read_text(), re.MULTILINE)
    assert re.findall(r"3\.\d+", matrix) == classifiers
    assert "python -m tools.wheel_smoke --download dist/*.whl" in workflow.read_text()
