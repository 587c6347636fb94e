"""A run as a file: rows as csv or JSON lines, or one HTML page."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from starlette.responses import Response, StreamingResponse

from valor_gpu.evaluation.report import write_report
from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
from valor_gpu.store import Run
from valor_gpu.web.routes import Ask, get
from valor_gpu.web.rows.run_rows import find_run

_KINDS: dict[str, tuple[Callable[[Run, str], object], str]] = {
    "csv": (export_csv, "text/csv"),
    "jsonl": (export_jsonl, "application/x-ndjson"),
    "html": (write_report, "text/html"),
}

_CHUNK = 1 << 20


def _export(kind: str) -> Callable[[Ask], Response]:
    write, media = _KINDS[kind]

    def export(ask: Ask) -> Response:
        run = find_run(ask)
        handle, name = tempfile.mkstemp(suffix=f".{kind}", prefix="valor_gpu_")
        os.close(handle)
        try:
            write(run, name)
            file = open(name, "rb")  # noqa: SIM115 - closed when it was read, or when nobody reads on
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        # Rows of a run stay in no folder of temporary files, whatever becomes of the answer or of the server.
        with contextlib.suppress(PermissionError):  # of Windows, for a file that is open
            os.unlink(name)
        headers = {
            "content-length": str(os.fstat(file.fileno()).st_size),
            "content-disposition": f'attachment; filename="{_file_name(run)}.{kind}"',
        }
        return StreamingResponse(_chunks(file, name), media_type=media, headers=headers)

    export.__name__ = f"export_{kind}"
    return export


def _chunks(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        with file:
            while chunk := file.read(_CHUNK):
                yield chunk
    finally:
        Path(name).unlink(missing_ok=True)


def _file_name(run: Run) -> str:
    """A name of letters, digits and hyphens: the run's own may hold anything."""
    return re.sub(r"[^A-Za-z0-9]+", "-", run.name).strip("-")[:60] or f"run-{run.id}"


ROUTES = [get(f"/runs/{{run}}/export.{kind}", _export(kind)) for kind in _KINDS]
