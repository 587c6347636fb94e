"""What a run spent: tokens, money and seconds, of its target and of its judge."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from valor_gpu.evaluation.results.latency import Latency
from valor_gpu.judge.protocol import Usage
from valor_gpu.judge.statistics import Prices
from valor_gpu.store.columns import Columns
from valor_gpu.store.replaced import ReplacedUsage
from valor_gpu.store.traces import ANSWER

_TOKENS = {
    "prompt": "prompt",
    "prompt_tokens": "prompt",
    "input_tokens": "prompt",
    "completion": "completion",
    "completion_tokens": "completion",
    "output_tokens": "completion",
    "cached": "cached",
    "cached_tokens": "cached",
}
_COUNTS = ("prompt", "completion", "cached", "total")


class Spending:
    """Sums of tokens, seconds and costs.

    Example:
        >>> found = Spending()
        >>> found.add({"prompt": 100, "completion": 20}, 0.5, None)
        >>> found.tokens(), found.seconds, found.cost
        ({'prompt': 100, 'completion': 20, 'cached': 0, 'total': 120}, 0.5, None)
    """

    def __init__(self) -> None:
        self._tokens: Counter[str] = Counter()
        self.attempts = 0
        self.calls = Latency()
        self.seconds = 0.0
        self.cost: float | None = None

    def add(self, usage: Any, seconds: Any, cost: Any) -> None:
        """Adds what a row or a score spent; what is no number counts for nothing."""
        for name, value in usage.items() if isinstance(usage, Mapping) else ():
            if _is_amount(value):
                if name in _TOKENS:
                    self._tokens[_TOKENS[name]] += int(value)
                elif name == "cost":
                    self.cost = (self.cost or 0.0) + float(value)
                elif name == "attempts":
                    self.attempts += int(value)
        if isinstance(usage, Mapping):
            self.calls.add_usage(usage)
        if _is_amount(seconds):
            self.seconds += float(seconds)
        if _is_amount(cost):
            self.cost = (self.cost or 0.0) + float(cost)

    def tokens(self) -> dict[str, int]:
        """Counts of tokens, as JSON."""
        usage = self.usage
        return {
            "prompt": usage.prompt,
            "completion": usage.completion,
            "cached": usage.cached,
            "total": usage.total,
        }

    @property
    def usage(self) -> Usage:
        """Counts of tokens."""
        return Usage(self._tokens["prompt"], self._tokens["completion"], self._tokens["cached"])

    def priced(self, prices: Prices | None) -> float | None:
        """The cost that is known, else that of the tokens; None without prices."""
        return self.cost if self.cost is not None or prices is None else prices.cost(self.usage)


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def read_spending(columns: Columns) -> dict[str, Spending]:
    """Reads what the scores of each evaluator took; evaluators that tell of neither tokens nor seconds are left out."""
    found: dict[str, Spending] = {}
    for name, usage, seconds in columns.usage():
        found.setdefault(name, Spending()).add(usage, seconds, None)
    return found


class ReplacedSpending:
    """Sums of what the failures of a run cost that were replaced by another try.

    Attributes:
        n: failures.
        judge: evaluator to what its scores spent.
        target: what the answers of the target spent.

    Args:
        usages: as of :func:`~valor_gpu.store.replaced.replaced_usage`.
    """

    def __init__(self, usages: Iterable[ReplacedUsage] = ()) -> None:
        self.n = 0
        self.judge: dict[str, Spending] = {}
        self.target = Spending()
        for each in usages:
            self.add(each.evaluator, each.usage, each.seconds)

    def add(self, evaluator: str, usage: Mapping[str, Any], seconds: float | None) -> None:
        """Adds a failure; the evaluator of an answer of the target is ``""``."""
        self.n += 1
        spent = self.target if evaluator == ANSWER else self.judge.setdefault(evaluator, Spending())
        spent.add(usage, seconds, None)

    def summary(self, prices: Prices | None) -> dict[str, Any]:
        """Returns ``n``, ``attempts``, ``usage``, ``cost`` and ``costs`` of the failures, as JSON."""
        spent = [*self.judge.values(), self.target]
        usage = sum((each.usage for each in spent), Usage())
        costs = {"judge": _total(each.priced(prices) for each in self.judge.values()), "target": self.target.cost}
        return {
            "n": self.n,
            "attempts": sum(each.attempts for each in spent),
            "usage": {name: getattr(usage, name) for name in _COUNTS},
            "cost": _total(costs.values()),
            "costs": costs,
        }


def attempts_in_words(n: int) -> str:
    """Returns the number of failed attempts that were replaced, in words.

    Example:
        >>> attempts_in_words(1), attempts_in_words(2000)
        ('1 failed attempt that was replaced', '2,000 failed attempts that were replaced')
    """
    return f"{n:,} failed attempt{' that was' if n == 1 else 's that were'} replaced"


def _total(costs: Iterable[float | None]) -> float | None:
    """The sum of the costs that are known; None without any."""
    known = [each for each in costs if each is not None]
    return math.fsum(known) if known else None


def spending_summary(
    judge: Mapping[str, Spending], target: Spending, replaced: ReplacedSpending, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns ``usage``, ``cost``, ``costs``, ``replaced`` and ``latency`` of a run, as JSON.

    Args:
        judge: evaluator to what its scores spent.
        target: what the answers of the target spent.
        replaced: what failures spent that were replaced; ``usage`` and costs count it.
        config: of the run; ``prices`` are those of the judge's tokens.
    """
    given = config.get("prices")
    prices = Prices(**given) if given else None
    judges, targets = [*judge.values(), *replaced.judge.values()], (target, replaced.target)
    costs = {"judge": _total(each.priced(prices) for each in judges), "target": _total(each.cost for each in targets)}
    parts = {
        "judge": sum((each.usage for each in judges), Usage()),
        "target": sum((each.usage for each in targets), Usage()),
    }
    shown = {name: {key: getattr(used, key) for key in _COUNTS} for name, used in parts.items()}
    total = {key: shown["judge"][key] + shown["target"][key] for key in _COUNTS}
    return {
        "usage": {**total, **shown},
        "cost": _total(costs.values()),
        "costs": costs,
        "replaced": replaced.summary(prices),
        "latency": {"judge": _calls(judges), "target": _calls(targets)},
    }


def _calls(spent: Iterable[Spending]) -> dict[str, float] | None:
    """Seconds of all calls; None without any."""
    found = Latency()
    for each in spent:
        found += each.calls
    return found.summary()
