"""``--fail-under``: least values of numbers of the result, which decide the exit status."""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING

from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.result import Result


def add_fail_under_option(command: argparse.ArgumentParser) -> None:
    """Adds ``--fail-under``."""
    command.add_argument("--fail-under", type=_least, action="append", default=[], metavar="NUMBER=VALUE",
        help="exit status 1 if a number of the result is below VALUE, or does not exist: map=0.37; names are those of"
        " values in --json, parts joined by /, with --intervals also map_low; again for several")  # fmt: skip


def _least(text: str) -> tuple[str, float]:
    """A name and the least value of its number; names of classes may hold ``=``."""
    name, _, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not name.strip() or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be NUMBER=VALUE, such as map=0.37, but got {text!r}")
    return name.strip(), number


def fail_under_status(options: argparse.Namespace, result: Result) -> int:
    """Says on standard error which numbers are below their least value, or do not exist; returns the exit status.

    Raises:
        InputError: the result has no number of a name.
    """
    from valor_gpu.cli import FAILURE, OK

    if not options.fail_under:
        return OK
    numbers, failed = result.scalars(), []
    # Numbers have all their digits: the AP of perfect detections is below 1 by its last bit, as in pycocotools.
    for name, least in options.fail_under:
        if name not in numbers:
            from valor_gpu.checks import near_names

            raise InputError(f"--fail-under needs a number of the result but got {name}{near_names(name, numbers)}")
        value = numbers[name]
        if math.isnan(value):
            reason = result.reason(name)
            failed.append(f"{name} must be at least {least!r} but does not exist{f': {reason}' if reason else ''}")
        elif value < least:
            failed.append(f"{name} must be at least {least!r} but is {value!r}")
    for line in failed:
        print(f"valor-gpu {options.command}: failed: {line}", file=sys.stderr)
    return FAILURE if failed else OK
