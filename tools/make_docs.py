"""Writes what docs/ has from docstrings and from the command line.

Usage: python tools/make_docs.py [--check | FOLDER]. It writes the files that are in git: the index of the metrics, the
page of the command and that of the protocols. With --check it writes nothing and fails when one is not up to date. With
a folder it writes there what only the site has: FOLDER/metrics, a page for each metric, and FOLDER/modules.json.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is documented, whatever is installed

from tools import api_docstrings, metric_pages, protocols_page  # noqa: E402
from tools.docstrings import plain  # noqa: E402

NOTE = "<!-- Made by tools/make_docs.py from {source}: change that, then run it. -->"


def option_line(action: argparse.Action) -> str:
    """One option of the command line."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    takes = [] if action.nargs == 0 else [str(action.metavar or choices)]
    needed = " (required)" if action.required else ""
    names = [", ".join(action.option_strings)] if action.option_strings else []
    return f"| `{' '.join([*names, *takes])}` | {action.help}{needed} |"


def command_parts(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    """A section on a command, or one on each of its own commands."""
    yield f"## {name}\n\n{command.description}"
    nested = [a for a in command._actions if isinstance(a, argparse._SubParsersAction)]
    for each in nested:
        for inner, parser in each.choices.items():
            yield from command_parts(f"{name} {inner}", parser)
    shown = [a for a in command._actions if not isinstance(a, (argparse._HelpAction, argparse._SubParsersAction))]
    if shown:
        yield "\n".join(["| option | |", "| --- | --- |", *map(option_line, shown)])


def cli_page() -> str:
    """docs/cli.md."""
    from valor_gpu import cli

    whole = cli.parser()
    commands = next(a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    status = inspect.cleandoc(cli.__doc__ or "").split("\n\n")[1]
    parts = [NOTE.format(source="valor_gpu/cli"), "# The command `valor-gpu`", plain(status)]
    for name, command in commands.choices.items():
        parts += command_parts(f"valor-gpu {name}", command)
    return "\n\n".join(parts) + "\n"


def committed() -> dict[str, str]:
    """Path below the checkout to content, for every made file that is in git."""
    return {
        "docs/metrics/README.md": f"{NOTE.format(source='docstrings')}\n\n{metric_pages.index()}",
        "docs/cli.md": cli_page(),
        "docs/protocols.md": protocols_page.page(),
    }


def of_the_site() -> dict[str, str]:
    """Path below a folder to content, for every file that only ``make docs`` reads."""
    made = {f"metrics/{name}.md": text for name, text in metric_pages.pages().items()}
    folder = ROOT / "docs/api"
    modules = {"names": api_docstrings.names(folder), "docstrings": api_docstrings.found(folder)}
    return {**made, "modules.json": json.dumps(modules, indent=0)}


def stale(root: Path) -> list[str]:
    """Files that are not up to date, and files beside the index that nothing makes."""
    made = committed()
    left = {str(path.relative_to(root)) for path in (root / "docs/metrics").glob("*")} - set(made)
    return sorted(left) + [
        name for name, text in made.items() if not (root / name).exists() or (root / name).read_text() != text
    ]


def write(folder: Path, made: dict[str, str]) -> None:
    """Writes files below a folder."""
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def main(arguments: list[str]) -> int:
    """Writes the files, or checks them."""
    if arguments == ["--check"]:
        old = stale(ROOT)
        print("\n".join(f"{name} is not up to date: run tools/make_docs.py" for name in old) or "docs are up to date")
        return 1 if old else 0
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        write(Path(arguments[0]), of_the_site())
    else:
        write(ROOT, committed())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
