"""Writer of the artifacts of a run: rows, numbers, configuration and page. A second run replaces them as a whole."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from valor_gpu._version import __version__
from valor_gpu.errors import MissingExtraError
from valor_gpu.evaluation.results.files import CONFIG, METRICS, REPORT, RESULTS, artifact_paths, replaced_files
from valor_gpu.evaluation.results.result_lines import result_lines
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store.edits import edits_of
from valor_gpu.store.runs import Run


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
    for path in stale:
        with contextlib.suppress(OSError):  # no earlier run wrote it
            path.unlink()
    return paths


def _page(
    run: Run, baseline: Run | None, thresholds: Mapping[str, float | str] | None, summary: Mapping[str, Any]
) -> str | None:
    """Renders the page of a run. Without jinja2 it warns and returns None."""
    from valor_gpu.evaluation.report.page import report_page

    try:
        return report_page(run, baseline, thresholds, summary)
    except MissingExtraError as error:
        warnings.warn(f"{REPORT} is not written: {error}", UserWarning, stacklevel=4)
        return None


def run_record(run: Run) -> dict[str, Any]:
    """Returns the content of ``run.json``: configuration, tags, note, data hash and versions. The store has no secrets."""
    created = datetime.datetime.fromtimestamp(run.created, datetime.timezone.utc)
    return {
        "run_id": run.id,
        "name": run.name,
        "state": run.state,
        "created": created.isoformat(timespec="seconds"),
        "dataset": run.dataset,
        "tags": run.tags,
        **({"note": note} if (note := edits_of(run).note) else {}),
        "config": run.config,
        "versions": {"valor_gpu": __version__, "python": platform.python_version()},
    }


def _write_json(file: IO[str], value: Any) -> None:
    json.dump(value, file, ensure_ascii=False, allow_nan=False, indent=2)
    file.write("\n")
