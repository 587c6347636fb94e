"""The server: the application on a port of this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from valor_gpu.errors import InputError
from valor_gpu.store.serving import HOST, announced
from valor_gpu.web.app import make_app
from valor_gpu.web.render import prepare
from valor_gpu.web.runs.purging import Sweeper

_LOG = logging.getLogger(__name__)


def serve(
    store_path: str | os.PathLike[str] | None = None,
    *,
    port: int = 8765,
    open_browser: bool = False,
    registry: Any = None,
    say: Callable[[str], object] = print,
) -> None:
    """Serves Studio on 127.0.0.1 until it is interrupted. ``studio_url`` of results in its store is known meanwhile.

    Args:
        store_path: file of the store; None for the default one.
        port: 0 takes a free one.
        open_browser: open the start address in the browser.
        registry: what forms can choose.
        say: gets the start address, which works once.

    Raises:
        InputError: the port is taken.
    """
    with _listening(port) as listening:
        found = int(listening.getsockname()[1])
        token = secrets.token_urlsafe(24)
        app = make_app(store_path, token=token, port=found, registry=registry)
        studio = app.state.studio
        address = f"http://{HOST}:{found}/start?token={token}"
        config = uvicorn.Config(app, access_log=False, log_level="warning", timeout_graceful_shutdown=2)
        with contextlib.ExitStack() as known:
            _announce(known, studio.store.path, found)
            studio.trials.keeps_warm = True
            known.callback(studio.trials.close)
            say(f"Studio of {studio.store.path}\n{address}")
            if open_browser:
                webbrowser.open(address)
            threading.Thread(target=prepare, name="templates", daemon=True).start()
            with Sweeper(studio.store, studio.uploads), contextlib.closing(studio.readings):
                _Server(config, known).run([listening])


class _Server(uvicorn.Server):
    """A server that takes its address back when it ends: after SIGTERM nothing else of this process would run.

    Args:
        config: of the server.
        known: closed when the server shuts down.
    """

    def __init__(self, config: uvicorn.Config, known: contextlib.ExitStack) -> None:
        super().__init__(config)
        self._known = known

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes the address back, then waits for requests under way."""
        self._known.close()
        await super().shutdown(sockets)


def _announce(known: contextlib.ExitStack, store: Path, port: int) -> None:
    """Makes the address known beside the store; Studio serves without that, too."""
    try:
        known.enter_context(announced(store, port))
    except OSError as error:
        _LOG.warning("studio_url of results stays unknown, since no file can be written beside the store: %s", error)


def _listening(port: int) -> socket.socket:
    # Named protocol: asyncio switches Nagle's delay off, 40 ms a page, only for sockets that say they are TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from now on a browser waits for the server, and is not refused
    except OSError as error:
        listening.close()
        raise InputError(f"port must be free but {port} cannot be used on {HOST}: {error.strerror}") from error
    return listening
