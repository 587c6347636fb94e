"""``valor-gpu studio``: evaluation from a browser."""

from __future__ import annotations

import argparse
import gc

from valor_gpu.cli.options import input_path
from valor_gpu.errors import InputError


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options."""
    command.add_argument(
        "--store", metavar="FILE", help="file of the runs; default: VALOR_GPU_STORE, else that of the user"
    )
    command.add_argument("--port", type=int, default=8765, help="port on 127.0.0.1, 0 for a free one (default 8765)")
    command.add_argument("--open", action="store_true", help="open the start address in the browser")
    command.add_argument(
        "--registry",
        type=input_path,
        metavar="FILE",
        help="YAML or JSON file with the targets, judges and evaluators of code that forms can choose",
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serves until it is interrupted."""
    if not 0 <= options.port <= 65535:
        raise InputError(f"--port must be from 0 to 65535 but is {options.port}")
    from valor_gpu.web.registry import load_registry
    from valor_gpu.web.server import serve

    gc.enable()  # the process of a command begins without, and each page makes cycles: 0.25 MB that nothing else frees
    registry = None if options.registry is None else load_registry(options.registry)
    serve(options.store, port=options.port, open_browser=options.open, registry=registry)
