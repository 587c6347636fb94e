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
GUIDE = (ROOT / "docs/guides/first_steps.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.DOTALL)


def lines_of_shell(text: str) -> list[str]:
    """Returns the lines of the blocks of commands."""
    return [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


COMMANDS = lines_of_shell(README)
WORST = ("001_196.png", "002_761.png", "001_001180.png", "002_001270.png", "003_000831.png", "004_001029.png",
         "005_000715.png")  # fmt: skip
"""Pictures of the images with most errors, and of those with the lowest mIOU."""


@pytest.mark.parametrize("block", range(len(PYTHON)))
def test_code_runs_and_gives_the_output_below_it(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    code, shown = PYTHON[block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == shown


def test_the_first_screen_is_three_sentences_an_install_line_a_paste_and_where_to_go() -> None:
    first, rest = README.split("\n## ", 1)
    paragraph = first.split("\n\n")[1]
    assert re.sub(r"\(.*?\)", "", paragraph).count(".") == 3 and len(paragraph.splitlines()) <= 6
    assert re.findall(r"```(\w+)\n", first) == ["bash", "python", "text"]
    assert f"valor_gpu-{__version__}-py3-none" in first and "pip install" in first
    code, shown = PYTHON[0]
    assert len(code.splitlines()) == 10 and len(shown.splitlines()) <= 10
    assert len(re.findall(r"^\|", first, re.MULTILINE)) <= 8
    assert len(first.splitlines()) <= 50 and len(README.splitlines()) <= 170
    assert "<!-- gpu:begin -->" in rest.split("## Speed")[1]


def test_pictures_are_small() -> None:
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert len(pictures) == 2
    assert all((ROOT / picture).stat().st_size < 200_000 for picture in pictures)


def test_links_to_metrics_name_an_entry_of_the_index() -> None:
    for page in ("README.md", "docs/index.md", "docs/guides/first_steps.md"):
        links = re.findall(r"\]\((\S*metrics/\S*)\)", (ROOT / page).read_text())
        assert links and all(re.fullmatch(r"[./a-z]*metrics/README\.md(#[\w.]+)?", link) for link in links)


def test_the_loop_of_the_guide_is_that_of_the_example() -> None:
    example = runpy.run_path(str(ROOT / "examples/training_loop.py"))
    body = inspect.getsource(example["validate"]).split('"""')[-1].replace("return result", "")
    [shown] = re.findall(r"^```py\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    assert shown == textwrap.dedent(body).strip() + "\n"


@pytest.mark.parametrize(
    ("text", "commands", "files"),
    [
        (
            README,
            ["detect", "classify", "segment", "doctor"],
            {"pr.png", "roc.png", "confusion.png", "out.json", "images.csv"},
        ),
        (
            GUIDE,
            ["doctor", "detect", "classify", "segment", "detect", "segment"],
            {"pr.png", "images.csv", *WORST},
        ),
    ],
    ids=["README", "first_steps"],
)
def test_commands_run(
    text: str,
    commands: list[str],
    files: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    ours = [shlex.split(line, comments=True)[1:] for line in lines_of_shell(text) if line.startswith("valor-gpu")]
    assert [arguments[0] for arguments in ours] == commands
    assert [main(arguments) for arguments in ours] == [0] * len(commands)
    assert "Average Precision" in capsys.readouterr().out
    assert {path.name for path in tmp_path.rglob("*.*")} == files


def test_commands_name_what_exists() -> None:
    others = [line for line in COMMANDS + lines_of_shell(GUIDE) if not line.startswith("valor-gpu")]
    assert all(
        re.match(r"pip install|VALOR_GPU_CUDA=1 pip install \.|make test|python setup\.py", line) for line in others
    )
    extras = next(line for line in COMMANDS if "extras: " in line).split("extras: ")[1].split()
    toml = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert set(extras) == set(re.findall(r"^(\w+) = ", toml, re.MULTILINE)) - {"dev", "bench", "docs"}
