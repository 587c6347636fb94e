"""What a run spent: tokens, money and seconds, of its target and of its judge."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from valor_gpu.judge.protocol import Usage
from valor_gpu.judge.statistics import Prices
from valor_gpu.store.columns import Columns

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


def spending_summary(judge: Mapping[str, Spending], target: Spending, config: Mapping[str, Any]) -> dict[str, Any]:
    """``usage`` and ``cost`` of a run with their parts, as JSON.

    Args:
        judge: evaluator to what it spent.
        target: what the target spent.
        config: of the run; ``prices`` are those of the judge's tokens.
    """
    given = config.get("prices")
    prices = Prices(**given) if given else None
    judged = [each.priced(prices) for each in judge.values()]
    costs = {
        "judge": math.fsum(cost for cost in judged if cost is not None) if any(c is not None for c in judged) else None,
        "target": target.cost,
    }
    known = [cost for cost in costs.values() if cost is not None]
    tokens = sum((each.usage for each in judge.values()), Usage())
    total = tokens + target.usage
    usage = {name: getattr(total, name) for name in ("prompt", "completion", "cached", "total")}
    parts = {
        name: {key: getattr(one, key) for key in usage} for name, one in (("judge", tokens), ("target", target.usage))
    }
    return {"usage": {**usage, **parts}, "cost": math.fsum(known) if known else None, "costs": costs}
