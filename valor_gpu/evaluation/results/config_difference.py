"""What differs between the configurations of two runs, and whether their scores can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.evaluation.evaluators.base import EVALUATORS

_ABOUT = ("evaluation_name", "output_path", "notes", "baseline", "group", "version", "evaluators", "max_cost", "cache")
"""What says nothing about answers or scores."""
_N_ROWS = "data.rows"  # which older runs of files did not count


def config_differences(config: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Names what differs, by dotted names, with both values.

    Example:
        >>> config_differences({"judge": {"model": "a"}, "seed": 0}, {"judge": {"model": "b"}, "seed": 0})
        [{'name': 'judge.model', 'run': 'a', 'baseline': 'b'}]
    """
    first, second = (dict(config_leaves(each)) for each in (config, baseline))
    return [
        {"name": name, "run": first.get(name), "baseline": second.get(name)}
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name) and not (name == _N_ROWS and None in (first.get(name), second.get(name)))
    ]


def config_leaves(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted name and value of every setting that says something about answers or scores."""
    for name, value in config.items():
        if name not in _ABOUT:
            yield from _walk(name, value)
    for each in config.get("evaluators") or ():
        yield f"evaluators.{each['name']}", each.get("version", "")


def _walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(f"{name}.{key}", item)
    else:
        yield name, value


def general_warnings(config: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """What stands against comparing two runs as a whole."""
    found = []
    if (config.get("data") or {}).get("hash") != (baseline.get("data") or {}).get("hash"):
        found.append("the data differ: only rows of the same key are compared, and what they ask may differ")
    if config.get("task_type") != baseline.get("task_type"):
        found.append(f"the task differs: {config.get('task_type')} and {baseline.get('task_type')}")
    return found


def metric_warning(
    info: Mapping[str, Any], other: Mapping[str, Any], config: Mapping[str, Any], baseline: Mapping[str, Any]
) -> str:
    """Why scores of one evaluator in two runs are not comparable; empty where they are.

    Args:
        info: of the evaluator in the run, as in ``config["evaluators"]``.
        other: likewise in the baseline.
        config: of the run.
        baseline: configuration of the baseline.
    """
    causes = []
    if info.get("version") != other.get("version"):
        causes.append("the versions of the evaluator differ")
    if info.get("needs_judge") and config.get("judge") != baseline.get("judge"):
        causes.append("the judges differ")
    known = EVALUATORS.get(info["name"])
    if known is not None and "embed" in known.needs and config.get("embedding") != baseline.get("embedding"):
        causes.append("the embeddings differ")
    return f"scores are not comparable: {' and '.join(causes)}" if causes else ""
