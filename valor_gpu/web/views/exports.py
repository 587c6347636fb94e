"""A run as a file: rows as csv or JSON lines, or one HTML page."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from valor_gpu.evaluation.report import write_report
from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
from valor_gpu.store import Run
from valor_gpu.web.routes import Ask, get
from valor_gpu.web.run_rows import find_run

_KINDS: dict[str, tuple[Callable[[Run, str], object], str]] = {
    "csv": (export_csv, "text/csv"),
    "jsonl": (export_jsonl, "application/x-ndjson"),
    "html": (write_report, "text/html"),
}


def _export(kind: str) -> Callable[[Ask], Response]:
    write, media = _KINDS[kind]

    def export(ask: Ask) -> Response:
        run = find_run(ask)
        handle, name = tempfile.mkstemp(suffix=f".{kind}", prefix="valor_gpu_")
        os.close(handle)
        try:
            write(run, name)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        shown = f"{_file_name(run)}.{kind}"
        return FileResponse(name, media_type=media, filename=shown, background=BackgroundTask(os.unlink, name))

    export.__name__ = f"export_{kind}"
    return export


def _file_name(run: Run) -> str:
    """A name of letters, digits and hyphens: the run's own may hold anything."""
    return re.sub(r"[^A-Za-z0-9]+", "-", run.name).strip("-")[:60] or f"run-{run.id}"


ROUTES = [get(f"/runs/{{run}}/export.{kind}", _export(kind)) for kind in _KINDS]
