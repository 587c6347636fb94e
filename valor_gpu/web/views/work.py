"""What can be done to the work of a run: cancel, resume."""

from __future__ import annotations

from starlette.responses import Response

from valor_gpu.web import jobs
from valor_gpu.web.routes import Ask, post, see
from valor_gpu.web.run_rows import find_run


def cancel(ask: Ask) -> Response:
    """Lets the run end soon."""
    run = find_run(ask)
    jobs.cancel(ask.studio.store, run)
    return see(f"/runs/{run.id}")


def resume(ask: Ask) -> Response:
    """Goes on with a run in a process of its own."""
    run = find_run(ask)
    jobs.start(ask.studio.store, run.id)
    return see(f"/runs/{run.id}")


ROUTES = [post("/runs/{run}/cancel", cancel), post("/runs/{run}/resume", resume)]
