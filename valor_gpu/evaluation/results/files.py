"""The files of a run: rows, numbers and configuration, as strict JSON. A second run replaces them as a whole."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from valor_gpu._version import __version__
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.results.result_lines import result_lines
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store.runs import Run

RESULTS, METRICS, CONFIG, REPORT = "eval_results.jsonl", "metrics.json", "run.json", "report.html"
ARTIFACTS = (RESULTS, METRICS, CONFIG, REPORT)
"""Names of the files of a run."""


def artifact_paths(output_path: str | os.PathLike[str]) -> dict[str, Path]:
    """Name to path of the files of a run.

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


def write_artifacts(
    run: Run,
    output_path: str | os.PathLike[str],
    *,
    summary: Mapping[str, Any] | None = None,
    thresholds: Mapping[str, float | str] | None = None,
    baseline: Run | None = None,
) -> dict[str, Path]:
    """Writes the files of a run.

    - ``eval_results.jsonl``: a line a row, see :func:`~valor_gpu.evaluation.results.result_rows.result_rows`;
    - ``metrics.json``: the summary, see :func:`~valor_gpu.evaluation.results.summary.run_summary`, with ``run_id``,
      ``name`` and ``state``;
    - ``run.json``: configuration, tags, data hash and versions: what the run was made from, without secrets;
    - ``report.html``: a page of the run, see :func:`~valor_gpu.evaluation.report.write_report`. Without the extra
      ``eval`` it is left out with a warning, and that of an earlier run is removed.

    All but the page are strict JSON in UTF-8. They are written beside their places and moved there when all are
    complete, so that a reader finds the files of one run or another, never half a file.

    Args:
        run: of a store.
        output_path: a folder, made if need be, or a ``.jsonl`` file; see :func:`artifact_paths`.
        summary: of the run, where it is known already.
        thresholds: instead of those of the run.
        baseline: run that the page compares with; by default that of the run's configuration.

    Returns:
        Name to path of the files that were written.

    Raises:
        InputError: the place is no folder.
        OSError: it cannot be written.
    """
    paths = artifact_paths(output_path)
    numbers = run_summary(run, thresholds=thresholds) if summary is None else summary
    about = {"run_id": run.id, "name": run.name, "state": run.state}
    page = _page(run, baseline, thresholds, numbers)
    stale = [paths.pop(REPORT)] if page is None else []
    with replaced_files(paths) as files:
        if page is not None:
            files[REPORT].write(page)
        files[RESULTS].writelines(result_lines(run, thresholds))
        _write_json(files[METRICS], {**about, **numbers})
        _write_json(files[CONFIG], run_record(run))
    _remove(stale)
    return paths


def _page(
    run: Run, baseline: Run | None, thresholds: Mapping[str, float | str] | None, summary: Mapping[str, Any]
) -> str | None:
    """The page of a run; None, with a warning, where jinja2 is not installed."""
    from valor_gpu.evaluation.report.page import report_page

    try:
        return report_page(run, baseline, thresholds, summary)
    except MissingExtraError as error:
        warnings.warn(f"{REPORT} is not written: {error}", UserWarning, stacklevel=4)
        return None


def run_record(run: Run) -> dict[str, Any]:
    """What a run was made from, as JSON: configuration, tags, hash of the data, versions. The store has no secrets."""
    created = datetime.datetime.fromtimestamp(run.created, datetime.timezone.utc)
    return {
        "run_id": run.id,
        "name": run.name,
        "state": run.state,
        "created": created.isoformat(timespec="seconds"),
        "dataset": run.dataset,
        "tags": run.tags,
        "config": run.config,
        "versions": {"valor_gpu": __version__, "python": platform.python_version()},
    }


def _write_json(file: IO[str], value: Any) -> None:
    json.dump(value, file, ensure_ascii=False, allow_nan=False, indent=2)
    file.write("\n")


@contextlib.contextmanager
def replaced_files(paths: Mapping[str, Path]) -> Iterator[dict[str, IO[str]]]:
    """Opens files for writing that take the places of ``paths`` when the block ends, all of them, or none on an error.

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
