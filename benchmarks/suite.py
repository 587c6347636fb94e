"""What the benchmarks of every suite share: the cases asked for, their plans, and the JSON that is stored."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from benchmarks import machine
from benchmarks.baselines import OURS, Tool
from benchmarks.interleave import AnyCase, Plan

C = TypeVar("C", bound=AnyCase)
Rows = list[dict[str, Any]]


def packages_of(tools: Mapping[str, Sequence[Tool]]) -> tuple[str, ...]:
    """Distributions whose versions are stored, ours first."""
    others = {tool.package for group in tools.values() for tool in group} - {OURS}
    return tuple(dict.fromkeys(("valor_gpu", "torch", "numpy", *sorted(others))))


def plans(
    suite: str,
    arguments: argparse.Namespace,
    cases: Mapping[str, C],
    size_of: Callable[[C], int],
    detail_of: Callable[[C, int], str] = lambda case, size: "",
) -> Iterator[tuple[C, Plan]]:
    """Each case asked for with its plan; says on standard error which one begins, and more of it by ``detail_of``."""
    for case in cases.values() if arguments.case == "all" else (cases[arguments.case],):
        size = size_of(case)
        print(f"{case.name}: {size} {case.unit}{detail_of(case, size)}", file=sys.stderr, flush=True)
        yield case, Plan(
            case, size, arguments.data, arguments.threads, arguments.repeats, arguments.slow_repeats,
            seed=arguments.seed, suite=suite,
        )  # fmt: skip


def stored(suite: str, arguments: argparse.Namespace, packages: Iterable[str], rows: Rows) -> dict[str, Any]:
    """The rows with the machine, the versions and the choices of the run."""
    choices = {name: getattr(arguments, name) for name in ("quick", "threads", "repeats", "slow_repeats")}
    return {"kind": suite, **machine.describe(packages), **choices, "rows": rows}
