"""``--store``, ``--name`` and ``--save-state`` of commands: the result as a run, which Studio shows, or as a file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.options import STANDARD_INPUT, check_kept, check_outputs, output_path
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.state_file import StateFile
    from valor_gpu.store.saved import Savable

    MakeState = Callable[[], StateFile]

DEFAULT_STORE = ""
"""``--store`` without a file."""


def add_store_options(command: argparse.ArgumentParser, images: bool = False) -> None:
    """Adds ``--store``, ``--name`` and, where the command has none for other pictures, ``--images``."""
    add = command.add_argument
    add("--store", nargs="?", const=DEFAULT_STORE, metavar="FILE",
        help="keep the result as a run in this file, or without FILE in that of VALOR_GPU_STORE or of the user:"
        " valor-gpu studio shows it, with its images, and compares it")  # fmt: skip
    add("--name", metavar="NAME", help="name of that run; default: of the file or folder of predictions")
    if images:
        add("--images", metavar="DIR", help="with --store: folder of the pictures that Studio shows")
    add_state_option(command)


def add_state_option(command: argparse.ArgumentParser) -> None:
    """Adds ``--save-state``; :func:`check_state` and :func:`save_state` read it."""
    command.add_argument("--save-state", type=output_path, metavar="FILE",
        help="write what the numbers came from, without pictures and texts: valor-gpu compare tests another model"
        " against this file")  # fmt: skip


def check_state(options: argparse.Namespace) -> None:
    """Raises for a ``--save-state`` that cannot be written, or that another option names, before any work."""
    if options.save_state is None:
        return
    if str(options.save_state) == STANDARD_INPUT:
        raise InputError("--save-state must be a file but - is standard output")
    check_outputs([("--save-state", options.save_state)])
    whole = os.path.realpath(options.save_state)
    for name, path in _files(options):
        if name != "save_state" and os.path.realpath(path) == whole:
            option = name.replace("_", "-")
            raise InputError(f"--save-state must be another file than --{option} but both are {options.save_state}")


def _files(options: argparse.Namespace) -> Iterator[tuple[str, str | os.PathLike[str]]]:
    """Names of options and the paths that they give."""
    for name, value in vars(options).items():
        for path in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(path, os.PathLike) or (isinstance(path, str) and path not in ("", STANDARD_INPUT)):
                yield name, path


def save_state(options: argparse.Namespace, make: MakeState) -> list[str]:
    """Writes the file that ``--save-state`` asks for; returns what to say of it."""
    if options.save_state is None:
        return []
    from valor_gpu.state_file import write_state

    write_state(options.save_state, make())
    return [f"wrote {options.save_state}"]


def check_store(options: argparse.Namespace) -> None:
    """Raises for a store that cannot work, and for outputs that would replace it or an input, before any work."""
    check_kept(options)
    check_state(options)
    if options.store is None:
        for name in ("name", "store_score"):
            if getattr(options, name, None) is not None:
                raise InputError(f"--store must be given with --{name.replace('_', '-')} but is not")
        return
    images = getattr(options, "images", None)
    if images is not None and not os.path.isdir(images):
        got = "is a file" if os.path.exists(images) else "does not exist"
        raise InputError(f"--images must be a folder but {images} {got}")
    from valor_gpu.store import Store

    Store(options.store or None).close()


def save_result(
    options: argparse.Namespace,
    result: Savable,
    predictions: str,
    truth: str,
    digest: str = "",
    state: MakeState | None = None,
    **more: Any,
) -> list[str]:
    """Keeps the result where ``--store`` asks for it; returns what to say of it.

    Args:
        options: of the command.
        result: what is kept.
        predictions: path of the predictions, whose name is the default one of the run.
        truth: path of the ground truth.
        digest: of what is true, by which comparisons know equal data; by default of the file ``truth``.
        state: makes the state file of the result; None: its ``to_run`` does.
        more: options of the result's ``to_run``.
    """
    if options.store is None:
        return []
    from valor_gpu.store import Store

    name = options.name or os.path.basename(predictions.rstrip("/")) or predictions
    data = {"source": truth, "hash": digest or _digest(truth)}
    tags: Mapping[str, Any] = {"predictions": os.path.basename(predictions.rstrip("/"))}
    found = result.to_run(**more)
    if state is not None:
        from valor_gpu.state_file import state_bytes

        found = replace(found, state=state_bytes(state()))
    with Store(options.store or None) as store:
        run = store.save(
            found,
            name,
            images=getattr(options, "images", None),
            tags=tags,
            data=data,
            saved_by=f"valor-gpu {options.command} --store",
        )
        return [
            f"saved as run {run.id} in {store.path}",
            *(note for note in run.config["notes"] if "--save-state" in note),
        ]


def _digest(path: str) -> str:
    """SHA-256 of a file; empty of what can be read only once."""
    if path == STANDARD_INPUT or not os.path.isfile(path):
        return ""
    from valor_gpu.inputs.files import sha256_of

    return sha256_of(path)[1]
