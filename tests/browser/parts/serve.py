"""``python -m tests.browser.parts.serve studio --store STORE --port 0``: Studio with the page of parts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from tests.browser.parts.page import with_parts
from valor_gpu.web import server
from valor_gpu.web.app import make_app


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--port", type=int)
    given = parser.parse_args()

    def make(store: Any, **settings: Any) -> Starlette:
        return with_parts(make_app(store, **settings), given.store)

    server.make_app = make
    server.serve(given.store, port=given.port, say=lambda words: print(words, flush=True))


if __name__ == "__main__":
    main()
