"""Names of the files of a run, and atomic replacement of files."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from valor_gpu.errors import InputError

RESULTS, METRICS, CONFIG, REPORT = "eval_results.jsonl", "metrics.json", "run.json", "report.html"
ARTIFACTS = (RESULTS, METRICS, CONFIG, REPORT)
"""Names of the files of a run."""


def artifact_paths(output_path: str | os.PathLike[str]) -> dict[str, Path]:
    """Returns the path of each file of a run by its name.

    Args:
        output_path: a folder; or a file that ends in ``.jsonl``, which is then that of the rows, with the other files
            beside it.

    Example:
        >>> artifact_paths("out")["metrics.json"].as_posix()
        'out/metrics.json'
    """
    path = Path(output_path)
    if path.suffix == ".jsonl" and not path.is_dir():
        return {name: path if name == RESULTS else path.parent / name for name in ARTIFACTS}
    return {name: path / name for name in ARTIFACTS}


@contextlib.contextmanager
def replaced_files(paths: Mapping[str, Path]) -> Iterator[dict[str, IO[str]]]:
    """Opens files for writing that replace ``paths`` when the block ends: all of them, or none on an error.

    Args:
        paths: name to path; their folders are made.

    Yields:
        Name to a text file. A lone surrogate, which UTF-8 has not, is written as its JSON escape.
    """
    for folder in {path.parent for path in paths.values()}:
        _make_folder(folder)
    mark = f".{secrets.token_hex(4)}.part"
    parts = {name: path.with_name(path.name + mark) for name, path in paths.items()}
    try:
        with contextlib.ExitStack() as stack:
            # JSON's escape of a surrogate, \\udc80, is what this error handler writes, too.
            yield {
                name: stack.enter_context(open(part, "w", encoding="utf-8", errors="backslashreplace", newline="\n"))
                for name, part in parts.items()
            }
        for name, part in parts.items():
            os.replace(part, paths[name])
    finally:
        _remove(parts.values())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"output_path must be a folder but {folder} is no folder") from error


def _remove(parts: Iterable[Path]) -> None:
    for part in parts:
        with contextlib.suppress(OSError):  # moved already, or never made
            part.unlink()
