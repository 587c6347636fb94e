"""The server: the application on a port of this machine."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Any

import uvicorn

from valor_gpu.errors import InputError
from valor_gpu.web.app import make_app
from valor_gpu.web.purging import Sweeper
from valor_gpu.web.render import prepare

HOST = "127.0.0.1"


def serve(
    store_path: str | os.PathLike[str] | None = None,
    *,
    port: int = 8765,
    open_browser: bool = False,
    registry: Any = None,
    say: Callable[[str], object] = print,
) -> None:
    """Serves Studio on 127.0.0.1 until it is interrupted.

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
        say(f"Studio of {studio.store.path}\n{address}")
        if open_browser:
            webbrowser.open(address)
        threading.Thread(target=prepare, name="templates", daemon=True).start()
        with Sweeper(studio.store, studio.uploads):
            uvicorn.Server(config).run([listening])


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
