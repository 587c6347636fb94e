"""Options of ``valor-gpu compare`` that choose how it compares."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.clusters import check_cluster_file, of_ids
from valor_gpu.cli.options import input_path, integer, replicates, score
from valor_gpu.cli.slices import add_slice_options, check_slice_options, edges_by_column
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.comparison.sides import Side
    from valor_gpu.store import Run

_GIVEN = (
    "replicates", "permutations", "confidence", "seed", "adjust", "smallest_difference", "power", "baseline",
)  # fmt: skip
"""Options that are arguments of ``compare``."""


def add_choice_options(compare: argparse.ArgumentParser) -> None:
    """Adds the options; :func:`choices_of` reads them."""
    add = compare.add_argument
    add("--replicates", type=replicates, metavar="N", help="of the paired bootstrap: default 1000")
    add("--permutations", type=_permutations, metavar="N",
        help="of the test that swaps images or rows between two models: default, as many as replicates; 0: no such"
        " test")  # fmt: skip
    add("--confidence", type=score, metavar="C", help="of the intervals, above 0 and below 1: default 0.95")
    add("--seed", type=integer, metavar="S", help="of the draws: default 0")
    add("--adjust", choices=("max_t", "holm", "benjamini_hochberg", "benjamini_yekutieli"),
        help="of p-values over classes, slices and pairs: max_t (default) and holm hold the chance of one false alarm,"
        " the others the fraction of false alarms")  # fmt: skip
    add("--smallest-difference", type=score, metavar="D",
        help="a difference that would matter, such as 0.01: say how many images or rows would show it")  # fmt: skip
    add("--power", type=score, metavar="P", help="chance to find it: default 0.8")
    add("--observed-power", action="store_true", help="also the power for the seen difference, with a warning")
    add("--cluster-file", type=input_path, metavar="FILE",
        help="CSV with the columns image and cluster, one line per image, or of rows the column cluster, one line per"
        " row in their order: those of a cluster, such as a video or a patient, are drawn as a whole")  # fmt: skip
    add("--cluster-column", metavar="COLUMN",
        help="of runs of texts, in place of --cluster-file: column of their data, such as a document: rows of one value"
        " are drawn and swapped as a whole")  # fmt: skip
    add_slice_options(compare)


def _permutations(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0 but got {text!r}")
    return int(text)


def check_options(options: argparse.Namespace) -> None:
    """Raises for options that do not go together, and for files that are none, before any work."""
    check_slice_options(options)
    check_cluster_file(options.cluster_file)
    if options.cluster_file is not None and options.cluster_column is not None:
        raise InputError("--cluster-column must be without --cluster-file: it is of runs of texts")


def choices_of(options: argparse.Namespace, sides: Sequence[Side | Run]) -> dict[str, Any]:
    """Returns the arguments of ``compare`` that the options give.

    Args:
        options: of the command.
        sides: the models, whose ids name the clusters.
    """
    found = {name: getattr(options, name) for name in _GIVEN if getattr(options, name) is not None}
    if options.observed_power:
        found["observed_power"] = True
    from valor_gpu.store import Run

    side = sides[0]
    if isinstance(side, Run):
        if options.cluster_file is not None:
            raise InputError("--cluster-file must be left out of runs of texts: --cluster-column names their clusters")
        found["clusters"] = options.cluster_column
    elif options.cluster_column is not None:
        raise InputError("--cluster-column must be left out where models are no runs of texts: give --cluster-file")
    elif options.cluster_file is not None:
        found["clusters"] = _clusters(options.cluster_file, side.state.identities().ids)
    if options.by is not None:
        found |= {"by": edges_by_column(options), "table": options.images_table}
    return found


def _clusters(path: str, ids: Sequence[Any] | None) -> Mapping[Any, str] | Sequence[str]:
    """Clusters by the ids of the units, or in the order of units without ids."""
    from valor_gpu.inputs.cluster_files import read_clusters, read_row_clusters

    return read_row_clusters(path) if ids is None else of_ids(read_clusters(path), ids)
