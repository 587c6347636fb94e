"""Every block of README.md runs and gives the output that it shows."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import runpy
import shlex
import textwrap
from pathlib import Path

import pytest

from valor_gpu._version import __version__
from valor_gpu.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("block", range(len(PYTHON)))
def test_code_runs_and_gives_the_output_below_it(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_GPU_STORE", str(tmp_path / "store.sqlite"))
    code, shown = PYTHON[block]
    if "for images, targets in loader" in code:
        example = runpy.run_path(str(ROOT / "examples/training_loop.py"))
        body = inspect.getsource(example["validate"]).split('"""')[-1].replace("return result", "")
        assert code == textwrap.dedent(body).strip() + "\n"
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == shown


def test_the_first_screen_is_an_install_line_a_paste_and_a_picture() -> None:
    first = README.split("## Which API should I use?")[0]
    assert re.findall(r"```(\w+)\n", first) == ["bash", *["python", "text"] * 4]
    assert "pip install" in first and all(len(code.splitlines()) <= 8 for code, _ in PYTHON[:2]) and len(PYTHON) == 10
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert first.count("](docs/images") == 2 and len(pictures) == 5
    assert all((ROOT / picture).stat().st_size < 200_000 for picture in pictures)
    assert f"valor_gpu-{__version__}-py3-none" in first


def test_the_first_paragraph_is_followed_by_what_is_known_of_gpus() -> None:
    """Its text is compared with the records by tests/benchmarks/test_detection.py."""
    assert re.match(r"# valor_gpu\n\n([^\n]+\n)+\n<!-- gpu:begin -->\n", README)
    assert README.index("<!-- gpu:end -->") < README.index("```bash")


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    ours = [shlex.split(line, comments=True)[1:] for line in COMMANDS if line.startswith("valor-gpu")]
    assert [arguments[0] for arguments in ours] == ["classify", "detect", "detect", "segment", "doctor"]
    assert [main(arguments) for arguments in ours] == [0, 0, 0, 0, 0]
    assert {path.name for path in tmp_path.glob("*.*")} == {
        "roc.png",
        "confusion.png",
        "out.json",
        "pr.png",
        "images.csv",
    }
    assert sorted(path.name for path in tmp_path.glob("worst/*")) == ["001_196.png", "002_761.png"]
    assert sorted(path.name for path in tmp_path.glob("lowest/*"))[4] == "005_000715.png"
    assert "Average Precision" in capsys.readouterr().out


def test_commands_of_the_first_five_minutes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lines = (ROOT / "docs/guides/first_steps.md").read_text().splitlines()
    new = [line for line in lines if line.startswith("valor-gpu") and " --plot" not in line and "doctor" not in line]
    ours = [shlex.split(line)[1:] for line in new]
    assert [arguments[0] for arguments in ours] == ["classify", "segment"]
    assert [main(arguments) for arguments in ours] == [0, 0]


def test_commands_name_what_exists() -> None:
    others = [line for line in COMMANDS if not line.startswith("valor-gpu")]
    assert all(
        re.match(r"pip install|VALOR_GPU_CUDA=1 pip install \.|make test|python setup\.py", line) for line in others
    )
    extras = next(line for line in COMMANDS if "extras: " in line).split("extras: ")[1].split()
    toml = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert set(extras) == set(re.findall(r"^(\w+) = ", toml, re.MULTILINE)) - {"dev", "bench", "docs"}
