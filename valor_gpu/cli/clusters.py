"""``--cluster-file``: which images belong together and are drawn as a whole by ``--intervals``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu._frozen import replaced
from valor_gpu.cli.options import add_interval_options, bootstrap_of, input_path
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.stats.intervals import Bootstrap


def add_image_interval_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of intervals and ``--cluster-file``; :func:`image_bootstrap_of` reads them."""
    add_interval_options(command)
    command.add_argument("--cluster-file", type=input_path, metavar="FILE",
        help="of --intervals: CSV with the columns image and cluster, one line per image: images of a cluster, such as"
        " a video or a patient, are drawn as a whole")  # fmt: skip


def image_bootstrap_of(options: argparse.Namespace) -> Bootstrap | None:
    """Returns the choices of :func:`add_image_interval_options`; None without ``--intervals``.

    Raises:
        InputError: a choice is out of its range or needs ``--intervals``, or the file cannot be used.
    """
    bootstrap, path = bootstrap_of(options), options.cluster_file
    if path is None:
        return bootstrap
    if bootstrap is None:
        raise InputError("--cluster-file needs --intervals N but that is missing: add it, for example 1000")
    check_cluster_file(path)
    from valor_gpu.inputs.cluster_files import read_clusters

    return replaced(bootstrap, clusters=read_clusters(path))


def check_cluster_file(path: str | None) -> None:
    """Raises for a file of clusters that is no file."""
    if path is not None and not os.path.isfile(path):
        raise InputError(
            f"--cluster-file must be a file but {path} {'is none' if os.path.exists(path) else 'is not there'}"
        )


def by_ids(bootstrap: Bootstrap, ids: Iterable[Any]) -> Bootstrap:
    """Returns the choices with clusters by ids, which a file has as texts."""
    if bootstrap.clusters is None:
        return bootstrap
    clusters: Any = bootstrap.clusters
    return replaced(bootstrap, clusters=of_ids(clusters, ids))


def of_ids(clusters: Mapping[str, Any], ids: Iterable[Any]) -> dict[Any, Any]:
    """Returns clusters by ids, from clusters by the texts of ids."""
    by_text = {str(number): number for number in ids}
    return {by_text.get(text, text): cluster for text, cluster in clusters.items()}
