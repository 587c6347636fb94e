"""``python -m benchmarks.run TASK``: evaluators beside one another.

How a run is measured: :mod:`benchmarks.interleave`. An engine whose numbers differ from the reference's (pycocotools,
scikit-learn, numpy, valor-lite, azure-ai-evaluation), beyond what it documents, gets no number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    analysis,
    classification,
    detection,
    evaluation,
    failures,
    host,
    intervals,
    machine,
    masks,
    offline,
    probabilities,
    regression_ranks,
    regression_sums,
    report,
    retrieval,
    segmentation,
    shell,
    small,
    studio,
    texts,
    valor_cases,
    valor_detection,
)
from benchmarks.baselines import OURS
from testing import formats
from testing.datasets import CASES

_TASKS: dict[str, tuple[Collection[str], Callable[[argparse.Namespace], dict[str, Any]]]] = {
    "detection": (CASES, detection.benchmark),
    "masks": (masks.CASES, masks.benchmark),
    "segmentation": (segmentation.CASES, segmentation.benchmark),
    "shell": (shell.CASES, shell.benchmark),
    "classification": (classification.CASES, classification.benchmark),
    "regression_sums": (regression_sums.CASES, regression_sums.benchmark),
    "regression_ranks": (regression_ranks.CASES, regression_ranks.benchmark),
    "text": (texts.CASES, texts.benchmark),
    "retrieval": (retrieval.CASES, retrieval.benchmark),
    "evaluation": (evaluation.CASES, evaluation.benchmark),
    "failures": (failures.CASES, failures.benchmark),
    "analysis": (analysis.CASES, analysis.benchmark),
    "intervals": (intervals.CASES, intervals.benchmark),
    "probabilities": (probabilities.CASES, probabilities.benchmark),
    "offline": (offline.CASES, offline.benchmark),
    "small": (small.CASES, small.benchmark),
    "host": (host.CASES, host.benchmark),
    "studio": (studio.CASES, studio.benchmark),
    "valor_detection": (valor_cases.CASES, valor_detection.benchmark),
}
"""Of each task the names of its cases, and what measures them."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=[*_TASKS])
    parser.add_argument("--case", default="all", help="; ".join(f"{n}: {', '.join(c)}" for n, (c, _) in _TASKS.items()))
    parser.add_argument("--repeats", type=int, default=5, help="runs of each engine")
    parser.add_argument("--slow-repeats", type=int, default=1, help="runs of those that take many seconds")
    parser.add_argument("--threads", type=int, default=machine.cpus(), help="CPUs each engine may use")
    parser.add_argument("--quick", action="store_true", help="small cases; nothing is stored unless --json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=formats.FOLDER, help="where generated files are kept")
    parser.add_argument("--json", type=Path, help="where the result goes; default benchmarks/results")
    arguments = parser.parse_args(argv)
    known, _ = _TASKS[arguments.task]
    if arguments.case not in (*known, "all"):
        parser.error(f"--case must be one of {', '.join(known)} or all of {arguments.task} but is {arguments.case}")
    for name in ("repeats", "slow_repeats", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1 but is {getattr(arguments, name)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run, store, print; 1 when our own numbers do not agree with the reference."""
    arguments = parse(argv)
    _, measure = _TASKS[arguments.task]
    result = measure(arguments)
    name = "_".join([arguments.task, *([] if arguments.case == "all" else [arguments.case]), result["date"][:10]])
    default = None if arguments.quick else machine.RESULTS / f"{name}.json"
    output = arguments.json or default
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")
        print(f"written to {output}", file=sys.stderr)
    print(report.TEXTS[arguments.task]([result]))
    return 0 if all(row["status"] == "ok" for row in result["rows"] if row["tool"] == OURS) else 1


if __name__ == "__main__":
    sys.exit(main())
