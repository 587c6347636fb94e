"""What a run was made of, in a few words."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from valor_gpu.evaluation.report import bounds
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.results.latency import latency_in_words
from valor_gpu.evaluation.results.spending import attempts_in_words
from valor_gpu.pages import numbers
from valor_gpu.store import Run
from valor_gpu.store.progress import progress_of

_OF_CONNECTIONS = ("kind", "masked", "response_format", "api_key_env", "azure_ad_token_env", "credential",
                   "organization")  # fmt: skip
"""Facts of a model that say how it is reached, not what it is."""

_SAID = ("name", "origin", "url")
"""Facts of a target that need no name of theirs."""


def run_facts(run: Run, summary: Mapping[str, Any], data_name: str = "") -> Iterator[tuple[str, str]]:
    """Name and text of each fact: data, rows, target, judge, tokens and cost, time.

    Args:
        run: of the store.
        summary: of the run.
        data_name: what people call the data; the name of the file without one.
    """
    config, rows = run.config, summary["rows"]
    data, target, judge = (config.get(name) or {} for name in ("data", "target", "judge"))
    name = data_name or PurePath(str(data.get("source", ""))).name  # the configuration has the whole path
    source = short(name) or "unknown"
    yield "Data", f"{source}{', ' + short(data['hash'], 12) if data.get('hash') else ''}"
    yield "Rows", _rows(run, rows)
    yield "Target", _identity(target) or "none: answers are in the data"
    yield "Judge", _identity(judge) or "none"
    usage = {name: n for name, n in summary["usage"].items() if isinstance(n, (int, float)) and n}
    tokens = ", ".join(f"{numbers.amount(n)} {name}" for name, n in usage.items()) or "no tokens"
    cost = summary["cost"]
    paid = cost_in_words(cost, (config.get("prices") or {}).get("currency", ""), summary.get("replaced") or {})
    yield "Tokens, cost", f"{tokens}; {paid}" if usage or cost is not None else tokens
    if judge or target:
        calls = "; ".join(latency_in_words(summary.get("latency") or {}))
        if calls or run.state != "running":
            yield "Time of a call", calls or "no times are kept"
    made = datetime.datetime.fromtimestamp(run.created, datetime.timezone.utc)
    took = "" if summary["seconds"] is None else f", took {numbers.duration(summary['seconds'])}"
    yield "Made", f"{made:%Y-%m-%d %H:%M} UTC{took}"


def cost_in_words(cost: float | None, currency: str, replaced: Mapping[str, Any]) -> str:
    """Returns a cost with its parts: of what is kept, and of failed attempts that were replaced.

    Args:
        cost: of a run, both parts together; None where it is not known.
        currency: of the cost.
        replaced: ``replaced`` of a summary; empty for runs of older versions.

    Example:
        >>> cost_in_words(0.5, "EUR", {"n": 2, "cost": 0.125, "usage": {"total": 900}})
        '0.50 EUR: 0.38 EUR for what is kept, 0.12 EUR for 2 failed attempts that were replaced'
        >>> cost_in_words(None, "", {"n": 1, "cost": None, "usage": {"total": 900}})
        'cost unknown, 900 of the tokens for 1 failed attempt that was replaced'
        >>> cost_in_words(0.5, "EUR", {})
        '0.50 EUR'
    """
    paid, n = numbers.cost(cost, currency), replaced.get("n")
    if not n:
        return paid
    of_them = attempts_in_words(n)
    spent = replaced["cost"]
    if cost is not None and spent is not None:
        kept = numbers.cost(max(cost - spent, 0.0), currency)
        return f"{paid}: {kept} for what is kept, {numbers.cost(spent, currency)} for {of_them}"
    tokens = replaced["usage"]["total"]
    return f"{paid}, {numbers.amount(tokens)} of the tokens for {of_them}" if tokens else paid


def expected_rows(run: Run) -> int | None:
    """Returns how many rows a run has when it has finished, None where that is not known.

    Args:
        run: of the store.
    """
    config = run.config
    rows, limit = (config.get("data") or {}).get("rows"), config.get("limit")
    if rows is None:
        progress = progress_of(run)
        return None if progress is None else progress.total_rows
    return int(rows if limit is None else min(rows, limit)) * int(config.get("epochs") or 1)


def _rows(run: Run, rows: Mapping[str, Any]) -> str:
    """The rows that there are, of those that there will be, and what came of them."""
    n, total, n_questions = rows["n"], expected_rows(run), rows.get("n_questions")
    failed = [f"{k:,} {bounds.words(status)}" for status, k in list(rows["failed"].items())[: bounds.NOTES]]
    there = "with an answer" if run.config.get("target") else "read"
    found = [f"{n:,}" if total is None or n >= total else f"{n:,} of {total:,}"]
    last = [f"all {there}"]
    if failed:
        last = failed
    elif total is None and run.state != "finished":
        found[0], last = found[0] + " so far", []
    elif total is not None and n < total:
        found[0], last = f"{found[0]} {there}", []
    questions = [f"{n_questions:,} question{'s' if n_questions != 1 else ''}"] if n_questions else []
    return ", ".join([*found, *questions, *last])


def _identity(found: Mapping[str, Any]) -> str:
    """What a target or judge is: the short ones of its facts."""
    plain = {name: value for name, value in found.items() if isinstance(value, (str, int, float)) and value != ""}
    parameters = found.get("parameters")
    if isinstance(parameters, Mapping) and parameters:
        plain["with"] = ", ".join(f"{name}={value}" for name, value in parameters.items())
    model, address = plain.pop("model", ""), plain.pop("base_url", "")
    first = [f"{model} at {address}" if address else str(model)] if model else []
    if model:
        plain = {name: value for name, value in plain.items() if name not in _OF_CONNECTIONS}
        if plain.get("name") == model:
            del plain["name"]
    else:
        first = [str(plain.pop(name)) for name in _SAID if name in plain]
        plain = {**({"base_url": address} if address else {}), **plain}
        for name in ("kind", "masked") if first else ():
            plain.pop(name, None)
    return short(", ".join([*first, *(f"{name} {value}" for name, value in plain.items())][:5]))
