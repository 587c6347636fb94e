"""The log of a run: what its process said, without secrets."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.web.processes import jobs
from valor_gpu.web.processes.live_run import POLL, REFRESH
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing
from valor_gpu.web.rows.run_rows import find_run

LINES = 200
"""Lines of the page; the file is offered whole."""
_BYTES = 256 << 10
_LARGEST = 64 << 20


def log(ask: Ask) -> Response:
    """The last lines of the log of a run."""
    run = find_run(ask)
    lines, is_whole = last_lines(jobs.log_path(ask.studio.store, run.id))
    state = jobs.state_of(ask.studio.store, run)
    follows = state == "running" and "still" not in ask.query
    return page(
        ask,
        "log.html",
        run={"id": run.id, "name": short(run.name) or "Evaluation", "state": state},
        lines=lines,
        is_whole=is_whole,
        most=LINES,
        poll=POLL if follows else None,
        refresh=REFRESH if follows else None,
    )


def last_lines(path: Path, most: int = LINES) -> tuple[list[str] | None, bool]:
    r"""The last lines of a file, None where it is not there, and whether these are all of its lines.

    Args:
        path: of the file.
        most: lines.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "log"
        ...     before, _ = last_lines(path), path.write_text("one\ntwo\nthree\n")
        ...     before, last_lines(path, 2), last_lines(path)
        ((None, True), (['two', 'three'], False), (['one', 'two', 'three'], True))
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _BYTES, 0))
            text = file.read(_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None, True
    lines = text.splitlines()
    if size > _BYTES:
        lines = lines[1:] or lines  # the first one has lost its beginning
    return lines[-most:], size <= _BYTES and len(lines) <= most


def download(ask: Ask) -> Response:
    """The log of a run as a file."""
    run = find_run(ask)
    path = jobs.log_path(ask.studio.store, run.id)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _LARGEST, 0))
            content = file.read(_LARGEST)
    except FileNotFoundError:
        raise missing(f"Run {run.id} has no log: Studio did not start its process.") from None
    headers = {"content-disposition": f'attachment; filename="{run.id}.log"'}
    return PlainTextResponse(content.decode("utf-8", "replace"), headers=headers)


ROUTES = [get("/runs/{run}/log", log), get("/runs/{run}/log.txt", download)]
