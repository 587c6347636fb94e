"""``--by``: numbers of slices of the images, by the columns of a table."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.options import input_path, names
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.analysis.slices import Slices
    from valor_gpu.progress import Progress
    from valor_gpu.result import Result
    from valor_gpu.stats.intervals import Bootstrap

_CROSSING = "+"


def add_slice_options(command: argparse.ArgumentParser, known: str = "") -> None:
    """Adds ``--by``, ``--images-table`` and ``--by-bins``; :func:`slices_of` reads them.

    Args:
        command: that gets them.
        known: what its help says of columns that need no table.
    """
    add = command.add_argument
    add("--by", type=names, metavar="COLUMN[,COLUMN...]",
        help="also show the numbers of slices of the images: for each value of each column of --images-table;"
        f" weather+hour stands for the combinations of two columns{known}")  # fmt: skip
    add("--images-table", type=input_path, metavar="FILE",
        help="of --by: table with one row per image, .csv, .tsv, .jsonl or .parquet; its column image_id, image or"
        " file_name says which, names of files with or without their suffix")  # fmt: skip
    bins_option(command)


def bins_option(command: argparse.ArgumentParser) -> None:
    """Adds ``--by-bins``; :func:`bins_of` reads it."""
    command.add_argument(
        "--by-bins", type=_bins, action="append", metavar="COLUMN=EDGE,EDGE,...",
        help="of --by: cut the numbers of a column into bins, from one edge to below the next, for example"
        " hour=6,12,18; again for several columns")  # fmt: skip


def _bins(text: str) -> tuple[str, list[float]]:
    """A column and its edges."""
    column, _, edges = text.rpartition("=")
    try:
        found = [float(edge) for edge in edges.split(",")]
    except ValueError:
        found = []
    if column.strip() and found:
        return column.strip(), found
    raise argparse.ArgumentTypeError(f"must be COLUMN=EDGE,EDGE,... with numbers as edges but got {text!r}")


def check_slice_options(options: argparse.Namespace) -> None:
    """Raises for options that need ``--by``, and for a table that is no file, before any work."""
    path = options.images_table
    if options.by is not None:
        if not all(options.by):
            raise InputError(f"--by must name columns with commas between them but got {','.join(options.by)!r}")
        bins_of(options)
        if path is not None and not os.path.isfile(path):
            got = "is a folder" if os.path.isdir(path) else "does not exist"
            raise InputError(f"--images-table must be a file but {path} {got}")
        return
    for name in ("images_table", "by_bins"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} needs --by COLUMN but that is missing")


def slices_of(
    options: argparse.Namespace, result: Result, bootstrap: Bootstrap | None, progress: Progress | None = None
) -> Slices | None:
    """Returns the slices that ``--by`` asks for; None without it.

    Args:
        options: of the command.
        result: whose images are sliced.
        bootstrap: of ``--intervals``.
        progress: takes one step where slices are asked for.
    """
    if options.by is None:
        return None
    if progress is not None:
        progress.step("computing slices")
    from valor_gpu.analysis.image_columns import BUILT_IN

    columns = [crossing(column) for column in options.by]
    choices: dict[str, Any] = {"bins": bins_of(options), "intervals": bootstrap}
    try:
        if options.images_table is not None:
            return result.by(options.images_table, *columns, **choices)
        first, *others = columns
        if not isinstance(first, str) or first not in BUILT_IN:
            raise InputError(
                f"--by {options.by[0]} needs --images-table FILE but that is missing: without it --by takes"
                f" {', '.join(BUILT_IN)}"
            )
        return result.by(first, *others, **choices)
    except InputError as error:
        raise InputError(in_options(str(error))) from None


def crossing(column: str) -> str | tuple[str, ...]:
    """Returns the name of a column of ``--by``, or the names of a combination."""
    parts = tuple(part.strip() for part in column.split(_CROSSING))
    return parts if len(parts) > 1 else column


def edges_by_column(options: argparse.Namespace) -> dict[str | tuple[str, ...], list[float] | None]:
    """Returns the columns of ``--by`` and the edges that ``--by-bins`` has for each; None: the values make the slices.

    Raises:
        InputError: ``--by-bins`` is about another column.
    """
    edges = bins_of(options) or {}
    columns = [crossing(column) for column in options.by]
    other = next((name for name in edges if name not in columns), None)
    if other is not None:
        raise InputError(f"--by-bins must be for a column of --by but {other} is none: add it to --by")
    return {column: edges.get(column) if isinstance(column, str) else None for column in columns}


def bins_of(options: argparse.Namespace) -> dict[str, list[float]] | None:
    """Returns the edges of ``--by-bins`` by column; None without them."""
    found: dict[str, list[float]] = {}
    for column, edges in options.by_bins or ():
        if column in found:
            raise InputError(f"--by-bins must name each column once but has {column} twice")
        found[column] = edges
    return found or None


def in_options(message: str, table: str = "--images-table") -> str:
    """Returns a message with the options in place of the arguments.

    Args:
        message: of the function.
        table: option of the table.
    """
    for argument, option in (("columns", "--by"), ("bins", "--by-bins"), ("table", table)):
        if message.startswith((f"{argument} ", f"{argument}[")):
            return message.replace(argument, option, 1)
    return message


def show_slices(slices: Slices | None, texts: list[str], documents: dict[str, Any]) -> None:
    """Adds slices, where there are any, to what is printed and to what ``--json`` gets.

    Args:
        slices: of :func:`slices_of`.
        texts: parts of the report.
        documents: keys of the JSON; ``slices`` becomes a list with an object for each, null for what does not exist.
    """
    if slices is None:
        return
    from valor_gpu.exports.leaves import json_value
    from valor_gpu.report.text import printable_lines

    texts.append(printable_lines(slices.text("--json")))
    documents["slices"] = [json_value(row) for row in slices.rows()]
