"""Gates: conditions on the numbers of a run, for tests and commands.

Example:
    >>> summary = {"metrics": {"mean_f1_score": 0.75}, "rows": {"n": 4, "ok": 4, "failed": {}}, "evaluators": {}}
    >>> [str(each) for each in failing_gates(summary, ["mean_f1_score >= 0.8", "rows.failed == 0"])]
    ['mean_f1_score >= 0.8 does not hold: it is 0.75']
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type, near_names
from valor_gpu.errors import InputError

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_GATE = re.compile(
    r"\s*(?P<name>[^<>=!]*[^<>=!\s])\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<limit>[^<>=!\s%]+)\s*(?P<percent>%?)\s*"
)
_SHOWN = 12


@dataclass(frozen=True)
class Gate:
    """A condition on one number.

    Attributes:
        name: of the number.
        sign: ``>=``, ``<=``, ``==``, ``!=``, ``>`` or ``<``.
        limit: that it is compared with.
    """

    name: str
    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Whether a number meets the condition."""
        return _OPERATORS[self.sign](value, self.limit)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.limit:.12g}"


@dataclass(frozen=True)
class FailedGate:
    """A gate that failed.

    Attributes:
        gate: the condition.
        value: the number; None where there is none.
        reason: why there is none.
        fail_if: the condition names what must not be.
    """

    gate: Gate
    value: float | None
    reason: str = ""
    fail_if: bool = False

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.gate} cannot be decided: there is no number{f', {self.reason}' if self.reason else ''}"
        return f"{self.gate} {'holds' if self.fail_if else 'does not hold'}: it is {self.value:.12g}"


def parse_gate(text: str) -> Gate:
    """Reads a gate: a name, one of ``>= <= == != > <``, a number, perhaps with ``%``.

    Raises:
        InputError: it is something else.

    Example:
        >>> parse_gate("violence_defect_rate <= 5%")
        Gate(name='violence_defect_rate', sign='<=', limit=0.05)
    """
    check_type("gate", text, str)
    found = _GATE.fullmatch(text)
    try:
        limit = float(found["limit"]) if found else math.nan
    except ValueError:
        limit = math.nan
    if found is None or not math.isfinite(limit):
        raise InputError(f"gate must be like 'mean_gpt_groundedness >= 4' but is {text!r}")
    return Gate(found["name"], found["sign"], limit / 100 if found["percent"] else limit)


def failing_gates(
    summary: Mapping[str, Any], gates: Iterable[str | Gate], *, fail_if: bool = False
) -> list[FailedGate]:
    """Returns the gates that a run fails. A number that does not exist fails every gate.

    Args:
        summary: as of :func:`~valor_gpu.evaluation.results.summary.run_summary`. Names are those of ``metrics``;
            ``rows.n``, ``rows.ok``, ``rows.failed``, ``cost``, ``seconds``, ``tokens``; and ``<evaluator>.<number>``
            for what ``evaluators`` has, such as ``gpt_fluency.n_without_score``.
        gates: conditions.
        fail_if: the conditions say what must not be, instead of what must.

    Raises:
        InputError: a gate that cannot be read, or that names no number of the run.
    """
    return failing(gate_numbers(summary), gates, lambda name: _reason(summary, name), fail_if=fail_if)


def failing(
    numbers: Mapping[str, float | None],
    gates: Iterable[str | Gate],
    reason: Callable[[str], str],
    *,
    fail_if: bool = False,
) -> list[FailedGate]:
    """:func:`failing_gates` of any numbers; ``reason`` says why one is None or NaN."""
    check_type("gates", gates, Iterable)
    parsed = [
        each if isinstance(each, Gate) else parse_gate(each) for each in ([gates] if isinstance(gates, str) else gates)
    ]
    failed = []
    for gate in parsed:
        if gate.name not in numbers:
            raise InputError(f"gate must name a number of the run but {gate.name!r} is none{_hint(gate.name, numbers)}")
        value = numbers[gate.name]
        if value is None or math.isnan(value):
            failed.append(FailedGate(gate, None, reason(gate.name), fail_if))
        elif gate.holds(value) is fail_if:
            failed.append(FailedGate(gate, value, "", fail_if))
    return failed


def gate_numbers(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """All numbers that gates can name."""
    found: dict[str, float | None] = dict(summary["metrics"])
    rows = summary["rows"]
    found |= {"rows.n": rows["n"], "rows.ok": rows["ok"], "rows.failed": sum(rows["failed"].values())}
    found |= {name: summary[name] for name in ("cost", "seconds") if name in summary}
    if "usage" in summary:
        found["tokens"] = summary["usage"]["total"]
    for name, each in summary["evaluators"].items():
        for key, value in each.items():
            if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
                found[f"{name}.{key}"] = value
        found[f"{name}.n_failed"] = sum(each.get("n_failed", {}).values())
    return found


def _hint(name: str, numbers: Mapping[str, Any]) -> str:
    metrics = [each for each in numbers if "." not in each][:_SHOWN]
    return near_names(name, numbers) or f"; there are {', '.join(metrics)}"


def _reason(summary: Mapping[str, Any], name: str) -> str:
    """Why a number does not exist."""
    for evaluator, each in summary["evaluators"].items():
        names: dict[Any, tuple[str, ...]] = {each.get("summary_name"): ("mean", "value")}
        names |= {f"{evaluator}_{rate}": (rate,) for rate in ("pass_rate", "defect_rate")}
        for what in names.get(name, ()):
            if what in each.get("reasons", {}):
                return str(each["reasons"][what])
    return ""
