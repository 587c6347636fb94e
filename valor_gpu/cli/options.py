"""What the commands share: types of options, checks of paths before any work."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path  # which loads urllib; a run without output files needs no paths but texts

    from valor_gpu.report.document import Inputs
    from valor_gpu.stats.intervals import Bootstrap

STANDARD_INPUT = "-"
JSON_HELP = (
    "write all numbers, counts, choices and reasons for missing numbers, explained in docs/json.md; - prints them on"
    " standard output in place of the report"
)
QUIET_HELP = "print no report; errors and warnings still go to standard error"
TABLES = ".csv, .tsv, .jsonl (or .gz of these), .parquet"


def add_report_options(command: argparse.ArgumentParser) -> None:
    """Adds ``--json`` and ``--quiet``."""
    command.add_argument("--json", type=output_path, metavar="FILE", help=JSON_HELP)
    command.add_argument("--quiet", action="store_true", help=QUIET_HELP)


def add_param_option(command: argparse._ActionsContainer) -> None:
    """Adds ``--param``; :func:`metric_parameters` reads it."""
    command.add_argument("--param", type=setting, action="append", default=[], metavar="METRIC.NAME=VALUE",
        help="parameter of a metric, for example exact_match.ignore_case=true; again for several")  # fmt: skip


def add_interval_options(command: argparse._ActionsContainer) -> None:
    """Adds ``--intervals``, ``--seed`` and ``--confidence``; :func:`bootstrap_of` reads them."""
    add = command.add_argument
    add("--intervals", type=replicates, metavar="N",
        help="show the interval of each number, from N replicates of the bootstrap; 1000 are usual")  # fmt: skip
    add("--seed", type=integer, metavar="S", help="of the draws of --intervals: default 0")
    add("--confidence", type=score, metavar="C", help="of the intervals, above 0 and below 1: default 0.95")


def bootstrap_of(options: argparse.Namespace) -> Bootstrap | None:
    """Returns the choices of :func:`add_interval_options`; None without ``--intervals``.

    Raises:
        InputError: a choice is out of its range, or needs ``--intervals``.
    """
    choices = {name: getattr(options, name) for name in ("confidence", "seed") if getattr(options, name) is not None}
    if options.intervals is None:
        if choices:
            raise InputError(f"--{min(choices)} needs --intervals N but that is missing: add it, for example 1000")
        return None
    from valor_gpu.stats.intervals import Bootstrap

    return Bootstrap(options.intervals, **choices)


def setting(text: str) -> tuple[str, Any]:
    """A name and its value: ``name=value``, where the value is JSON or else a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE but got {text!r}")
    import json

    try:
        return name.strip(), json.loads(value, parse_constant=_no_constant)
    except ValueError:
        return name.strip(), value


def _no_constant(text: str) -> None:
    raise ValueError(text)  # NaN and Infinity are no JSON: they stay texts


def metric_parameters(given: Sequence[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """Settings ``metric.name=value`` by metric."""
    found: dict[str, dict[str, Any]] = {}
    for whole, value in given:
        metric, dot, name = whole.rpartition(".")
        if not dot or not metric or not name:
            raise InputError(f"--param must be METRIC.NAME=VALUE but got {whole!r} as METRIC.NAME")
        if name in found.setdefault(metric, {}):
            raise InputError(f"--param must set {whole} once but sets it twice")
        found[metric][name] = value
    return found


def device(text: str) -> str:
    """The name of a device."""
    kind, colon, number = text.partition(":")
    if kind not in ("cpu", "cuda") or (colon and (kind == "cpu" or not number.isdecimal())):
        raise argparse.ArgumentTypeError(f"must be cpu, cuda or cuda:N but got {text!r}")
    return text


def names(text: str) -> tuple[str, ...]:
    """Returns the names that commas separate."""
    return tuple(name.strip() for name in text.split(","))


def input_path(text: str) -> str:
    """A path as pathlib writes it."""
    parts = "/".join(part for part in text.split("/") if part not in ("", "."))
    return ("/" if text.startswith("/") else "") + parts or "."


def output_path(text: str) -> Path:
    """A path to write to."""
    from pathlib import Path

    return Path(text)


def output_paths(text: str) -> list[Path]:
    """Paths to write to, which commas separate."""
    return [output_path(name) for name in names(text)]


def thresholds(text: str) -> int:
    """How many thresholds."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 2 but got {text!r}")
    return int(text)


def count(text: str) -> int:
    """How many of something, at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1 but got {text!r}")
    return int(text)


def replicates(text: str) -> int:
    """How many replicates of a bootstrap."""
    return thresholds(text)


def integer(text: str) -> int:
    """A whole number, which may be negative."""
    if not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number but got {text!r}")
    return int(text)


def score(text: str) -> float:
    """A finite number."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number but got {text!r}")
    return number


def sigmas(text: str) -> list[float]:
    """Numbers above 0 with commas between them."""
    numbers = [score(part) for part in text.split(",")]
    if min(numbers) <= 0:
        raise argparse.ArgumentTypeError(f"must be numbers above 0 but got {text!r}")
    return numbers


def input_files(options: argparse.Namespace, **files: str) -> Inputs | None:
    """The input files, whose hashes ``--json`` and ``--report`` need."""
    if options.json is None and getattr(options, "report", None) is None:
        return None
    from valor_gpu.report.document import Inputs

    return Inputs(files)


def reports(options: argparse.Namespace) -> bool:
    """Whether the report is printed: not when standard output takes the JSON."""
    if options.quiet or options.json is None:
        return not options.quiet
    from valor_gpu.report.files import is_standard_output

    return not is_standard_output(options.json)


def check_paths(inputs: Mapping[str, str], json_file: Path | None, pictures: Sequence[Path]) -> None:
    """Raises for paths that cannot work before any work is done."""
    taken: dict[str, str] = {}
    for option, path in inputs.items():
        if path == STANDARD_INPUT:
            _take(taken, option, path)
            continue
        if os.path.isdir(path) or not os.path.exists(path):
            got = "is a folder" if os.path.isdir(path) else "does not exist"
            raise InputError(f"{option} must be a file but {path} {got}")
        if not os.access(path, os.R_OK):
            raise InputError(f"{option} must be readable but {path} is not")
        _take(taken, option, path)
    if json_file is None and not pictures:
        return
    check_outputs([*(("--plot", picture) for picture in pictures), ("--json", json_file)], taken)
    from valor_gpu.report.files import check_picture

    for picture in pictures:
        check_picture("--plot", picture)


def check_outputs(outputs: Sequence[tuple[str, Path | None]], taken: dict[str, str] | None = None) -> None:
    """Raises for files that cannot be written, or that two options name.

    Args:
        outputs: options and their files; None of one that is not given, and what is standard output, are fine.
        taken: option by path of other files of the command.
    """
    from valor_gpu.report.files import check_output, is_standard_output

    taken = {} if taken is None else taken
    for option, output in outputs:
        if output is not None and not (option == "--json" and is_standard_output(output)):
            check_output(option, output)
            _take(taken, option, output)


def paths_of(inputs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """Option by path of files that are read, which no output may replace; None of an option that is not given."""
    found: dict[str, str] = {}
    for option, path in inputs:
        if path is not None and path != STANDARD_INPUT:
            found.setdefault(os.path.realpath(path), option)
    return found


def _take(taken: dict[str, str], option: str, path: str | Path) -> None:
    whole = os.path.realpath(path)
    if whole in taken:
        raise InputError(f"{option} must be another file than {taken[whole]} but both are {path}")
    taken[whole] = option


_BESIDE = ("images_table", "queries_table", "cluster_file", "names", "store")
"""Options whose file the command reads, or adds to, beside the data."""


def check_kept(options: argparse.Namespace) -> None:
    """Raises for an output that would replace a file that another option reads or adds to."""
    files = [(f"--{name.replace('_', '-')}", getattr(options, name, None)) for name in _BESIDE]
    kept = paths_of([(option, path) for option, path in files if path])
    for name, value in vars(options).items() if kept else ():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, os.PathLike) and (other := kept.get(os.path.realpath(path))):
                raise InputError(f"--{name.replace('_', '-')} must be another file than {other} but both are {path}")


_READ = (".png", ".npy", ".npz", ".jpg", ".jpeg")  # ends of the names of what commands read from folders


def check_not_read(outputs: Sequence[tuple[str, Path | None]], inputs: Sequence[tuple[str, str | None]]) -> None:
    """Raises for an output that would replace a picture or an array of a folder that is read.

    Args:
        outputs: options and their files; None of one that is not given.
        inputs: options and their folders, or single files.
    """
    for option, output in outputs:
        if output is None or output.suffix.lower() not in _READ or not output.is_file():
            continue
        for name, path in inputs:
            if path is not None and is_inside(output, path):
                raise InputError(f"{option} must be another file than those of {name} but {output} is one of them")


def is_inside(path: str | Path, folder: str) -> bool:
    """Whether a path is a folder, or a file, or lies in it, links followed."""
    whole = os.path.realpath(folder)
    return f"{os.path.realpath(path)}/".startswith(f"{whole.rstrip('/')}/")
