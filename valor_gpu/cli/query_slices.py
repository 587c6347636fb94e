"""``--by`` of ``valor-gpu retrieval``: numbers of slices of the queries, by the columns of a table."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.options import input_path, names
from valor_gpu.cli.slices import bins_of, bins_option, crossing, in_options
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from valor_gpu.analysis.slices import Slices
    from valor_gpu.result import Result
    from valor_gpu.stats.intervals import Bootstrap


def add_query_slice_options(command: argparse.ArgumentParser) -> None:
    """Adds ``--by``, ``--queries-table`` and ``--by-bins``; :func:`query_slices_of` reads them."""
    add = command.add_argument
    add("--by", type=names, metavar="COLUMN[,COLUMN...]",
        help="also show the numbers of slices of the queries: for each value of each column of --queries-table;"
        " language+intent stands for the combinations of two columns")  # fmt: skip
    add("--queries-table", type=input_path, metavar="FILE",
        help="of --by: table with one row per query, .csv, .tsv, .jsonl or .parquet; its column query, query_id or qid"
        " says which")  # fmt: skip
    bins_option(command)


def check_query_slice_options(options: argparse.Namespace) -> None:
    """Raises for options that need one another, and for a table that is no file, before any work."""
    path = options.queries_table
    if options.by is None:
        for name in ("queries_table", "by_bins"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} needs --by COLUMN but that is missing")
        return
    if not all(options.by):
        raise InputError(f"--by must name columns with commas between them but got {','.join(options.by)!r}")
    if len(options.runs) > 1:
        raise InputError(f"--by must go with one --run but {len(options.runs)} are given: slice each by itself")
    if path is None:
        raise InputError(f"--by {options.by[0]} needs --queries-table FILE but that is missing")
    bins_of(options)
    if not os.path.isfile(path):
        got = "is a folder" if os.path.isdir(path) else "does not exist"
        raise InputError(f"--queries-table must be a file but {path} {got}")


def query_slices_of(
    options: argparse.Namespace,
    result: Result,
    ids: Sequence[str],
    part: Callable[[NDArray[np.int64]], Result],
    bootstrap: Bootstrap | None,
) -> Slices | None:
    """Returns the slices that ``--by`` asks for; None without it.

    Args:
        options: of the command.
        result: of all queries.
        ids: of the queries.
        part: gives the result of some of them, by their positions.
        bootstrap: of ``--intervals``.
    """
    if options.by is None:
        return None
    from valor_gpu.analysis.query_slices import Queries, query_slices

    columns = [crossing(column) for column in options.by]
    choices: dict[str, Any] = {"bins": bins_of(options), "intervals": bootstrap}
    try:
        queries = Queries("retrieval", ids, part)
        return query_slices(queries, dict(result.signature), options.queries_table, columns, **choices)
    except InputError as error:
        raise InputError(in_options(str(error), "--queries-table")) from None
