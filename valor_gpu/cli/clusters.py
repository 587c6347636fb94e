"""``--cluster-file``: which images belong together and are drawn as a whole by ``--intervals``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from valor_gpu._frozen import replaced
from valor_gpu.cli.options import bootstrap_of, input_path
from valor_gpu.errors import InputError
from valor_gpu.stats.intervals import Bootstrap

_COLUMNS = ("image_id", "cluster")


def add_cluster_option(command: argparse._ActionsContainer) -> None:
    """Adds ``--cluster-file``."""
    command.add_argument("--cluster-file", type=input_path, metavar="FILE",
        help="with --intervals: CSV with columns image_id and cluster, one line for every image; images of a cluster,"
        " such as frames of a video, are drawn as a whole")  # fmt: skip


def check_bootstrap(options: argparse.Namespace) -> Bootstrap | None:
    """Returns the choices of ``--intervals`` without clusters, None if it is not asked for.

    Raises:
        InputError: a choice is out of its range, or needs ``--intervals``.
    """
    chosen = bootstrap_of(options)
    if chosen is None and options.cluster_file is not None:
        raise InputError("--cluster-file needs --intervals N but that is missing: add it, for example 1000")
    return chosen


def with_clusters(chosen: Bootstrap, path: str | None, ids: Iterable[Any]) -> Bootstrap:
    """Returns the choices with the clusters of a file.

    Args:
        chosen: of the bootstrap.
        path: of the file; None: without clusters.
        ids: of the images, which the file has as texts.

    Raises:
        InputError: the file lacks a column, or has an image twice.
    """
    if path is None:
        return chosen
    by_text = {str(number): number for number in ids}
    clusters = {by_text.get(text, text): cluster for text, cluster in read_clusters(path).items()}
    return replaced(chosen, clusters=clusters)


def read_clusters(path: str) -> dict[str, str]:
    """Returns the cluster of each image of a CSV file, both as texts.

    Args:
        path: of the file, whose first line names its columns.

    Raises:
        InputError: it lacks a column, a line lacks a value, or an image comes twice.
    """
    import csv

    found: dict[str, str] = {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        lacking = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
        if lacking:
            raise InputError(f"{path} must have columns {' and '.join(_COLUMNS)} but has {rows.fieldnames or 'none'}")
        for row in rows:
            image, cluster = (row[name] for name in _COLUMNS)
            if not image or not cluster:
                raise InputError(f"{path} line {rows.line_num} must have an image_id and a cluster but lacks one")
            if image in found:
                raise InputError(f"{path} line {rows.line_num} must name another image but {image} came before")
            found[image] = cluster
    return found
