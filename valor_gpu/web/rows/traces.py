"""Traces of a row as its page shows them. A store may hold any JSON, and an odd trace must not cost the page."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from valor_gpu.errors import StoreError
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.report.bounds import short, short_name, words
from valor_gpu.pages.numbers import amount, count, duration
from valor_gpu.pages.texts import cut
from valor_gpu.store import Run, StoredScore, StoredTrace, traces_of
from valor_gpu.store.traces import ANSWER, about_size_of_traces, prompts_of_traces

SHOWN = 20_000
"""Characters of one text of a trace on a page."""
PAGE = 1_500_000
"""Characters of all traces on a page."""
BEFORE = "not kept: this run was made before traces were kept"
EARLIER = "not kept: this was made before traces were kept"
WITHOUT = "Prompts and requests are not kept: this was made without prompts."
_CALLS = 200
"""Calls of a trace, and requests of a call, on a page."""


def row_traces(run: Run, row: int, scores: Iterable[StoredScore], opened: str | None = None) -> list[dict[str, Any]]:
    """Returns the traces of a row for the template, that of the answer first.

    Args:
        run: of the row.
        row: number of the row.
        scores: of the row.
        opened: the evaluator whose trace is open; None for none.

    Returns:
        A mapping for each score of a judge or by embeddings of a server, and for the answer of a target. ``missing``
        says why a trace is not kept.
    """
    kept, damage = _kept_traces(run, row)
    judged = judged_names(run)
    expected = [(ANSWER, 0)] if _dict(run.config.get("target")) else []
    expected += [(each.evaluator, each.repeat) for each in scores if each.evaluator in judged]
    places = list(dict.fromkeys([*expected, *kept]))
    several = {name for name, repeat in places if repeat}
    writer, found = _Writer(), []
    for number, (name, repeat) in enumerate(places, 1):
        title = (
            short_name(name) + (f", repeat {repeat + 1}" if name in several else "") if name else "Answer of the target"
        )
        view = {"id": f"trace-{number}", "name": title, "open": opened in (name, title), "missing": ""}
        trace = kept.get((name, repeat))
        if trace is None:
            view["missing"] = damage or (EARLIER if "keep_prompts" in run.config else BEFORE)
        found.append(view if trace is None else {**view, **writer.trace(trace)})
    return found


def _kept_traces(run: Run, row: int) -> tuple[dict[tuple[str, int], StoredTrace], str]:
    """Returns the traces of a row by evaluator and repeat, and why they cannot be read; then there are none."""
    try:
        return {(each.evaluator, each.repeat): each for each in traces_of(run, row)}, ""
    except StoreError as error:  # texts and scores of the row are there all the same
        return {}, str(error)


def judged_names(run: Run) -> set[str]:
    """Returns the names of the evaluators of a run that ask a judge, or a model of embeddings behind a server."""
    described = list(map(_dict, _list(run.config.get("evaluators"))))
    found = {str(each.get("name")) for each in described if each.get("needs_judge")}
    if _dict(run.config.get("embedding")).get("kind") in (None, "function"):  # asks nobody
        return found
    names = {str(each.get("name")) for each in described if each.get("source") == "builtin"}
    return found | {name for name in names if name in EVALUATORS and "embed" in EVALUATORS[name].needs}


def trace_facts(run: Run) -> list[tuple[str, str]]:
    """Returns what the page of a run says about its traces, as pairs of name and text."""
    if "keep_prompts" not in run.config:
        return []
    size = about_size_of_traces(run)
    if not size:
        return []
    kept = prompts_of_traces(run) or {bool(run.config["keep_prompts"])}
    words = "" if kept == {True} else ", some without prompts" if True in kept else ", without prompts"
    return [("Traces", f"about {size_in_words(size)}{words}")]


def size_in_words(size: float) -> str:
    """Returns a number of bytes in words.

    Example:
        >>> size_in_words(12_345_678), size_in_words(1_234), size_in_words(3e9)
        ('12 MB', '1 kB', '3.0 GB')
    """
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{max(size / 1e3, 1):,.0f} kB"


class _Writer:
    """Makes the views of a page's traces, whose texts share :data:`PAGE`."""

    def __init__(self) -> None:
        self._left = PAGE
        self._numbers = itertools.count(1)

    def trace(self, trace: StoredTrace) -> dict[str, Any]:
        content = _dict(trace.content)
        target = _dict(content.get("target"))
        is_http = target.get("kind") == "http"
        all_calls = [_dict(each) for each in _list(content.get("calls"))]
        calls = [self._call(each, is_http) for each in all_calls[:_CALLS]]
        return {
            "line": ", ".join(_line(all_calls)),
            "asked": list(_asked(target or _dict(content.get("judge")) or _dict(content.get("embedding")))),
            "note": WITHOUT if content.get("prompts") is False else "",
            "calls": calls,
            "more_calls": len(all_calls) - len(calls),
        }

    def _call(self, call: Mapping[str, Any], is_http: bool) -> dict[str, Any]:
        sent = [self._message(each, is_http) for each in _list(call.get("messages"))]
        if "arguments" in call:
            sent.append(self._text("arguments", call["arguments"], is_json=True))
        all_requests = [_dict(each) for each in _list(call.get("requests"))]
        requests = [self._request(each) for each in all_requests[:_CALLS]]
        known = _dict(call.get("reply")) if call.get("cached") else {}
        return {
            "sent": sent,
            "requests": requests,
            "more_requests": len(all_requests) - len(requests),
            "returned": self._text("returned", call["returned"]) if "returned" in call else None,
            "known": self._reply(known) if known else None,
            "error": _said(call.get("error")) if not requests else "",
            "status": words(_said(call.get("status"))),
            "seconds": _time(call.get("seconds")) if len(requests) > 1 else "",
        }

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        reply = _dict(request.get("reply"))
        waited, seconds = request.get("waited"), _time(request.get("seconds"))
        return {
            "added": [self._message(each) for each in _list(request.get("added"))],
            "status": words(_said(request.get("status"))),
            "is_ok": request.get("status") == "ok",
            "error": _said(request.get("error")),
            "seconds": seconds,
            "waited": _time(waited) if waited else "",
            "reply": self._reply(reply, seconds) if reply else None,
            "facts": list(_vector_facts(request)) if "texts" in request else [],
        }

    def _reply(self, reply: Mapping[str, Any], seconds: str = "") -> dict[str, Any]:
        said = [("finish reason", _said(reply.get("finish_reason"))), ("model", _said(reply.get("model")))]
        usage = {name: _number(value) for name, value in _dict(reply.get("usage")).items()}
        if usage.get("prompt") is not None and usage.get("completion") is not None:
            cached = f", {amount(usage['cached'])} of them from the server's cache" if usage.get("cached") else ""
            said.append(("tokens", f"{amount(usage['prompt'])} in{cached}, {amount(usage['completion'])} out"))
        said.append(("time", seconds))
        if dropped := _list(reply.get("dropped")):
            said.append(("sent without", ", ".join(short(each) for each in dropped[:20])))
        return {**self._text("reply", reply.get("text", "")), "facts": [each for each in said if each[1]]}

    def _message(self, message: Any, is_json: bool = False) -> dict[str, Any]:
        message = _dict(message)
        role = "body" if is_json else short(message.get("role") or "message", 40)
        found = self._text(role, message.get("content", ""), is_json)
        return {**found, "rest": _said(message["rest"])} if "rest" in message else found

    def _text(self, name: str, value: Any, is_json: bool = False) -> dict[str, Any]:
        """A text with an id for its button, and how many of its characters are missing here and in the store."""
        not_kept = 0
        if isinstance(value, Mapping) and isinstance(value.get("text"), str):
            not_kept, value = int(_number(value.get("left_out")) or 0), value["text"]
        text = value if isinstance(value, str) else _json(value)
        if is_json and not not_kept:
            text = _pretty(text)
        shown, left_out = cut(text, min(SHOWN, self._left))
        self._left -= min(len(text), SHOWN, self._left)
        place = f"trace-text-{next(self._numbers)}"
        return {"name": name, "id": place, "text": shown, "left_out": left_out, "not_kept": not_kept, "rest": ""}


def _line(calls: list[Mapping[str, Any]]) -> Iterator[str]:
    """The trace in a line: calls, retries, tokens, seconds, and where the replies came from."""
    requests = [_dict(each) for call in calls for each in _list(call.get("requests"))]
    known = [call for call in calls if call.get("cached")]
    if not calls:
        yield "no call"
        return
    yield "1 call" if len(calls) == 1 else f"{count(len(calls))} calls"
    if known:
        yield "from the cache" if len(known) == len(calls) else f"{count(len(known))} from the cache"
    repairs = sum(bool(_list(each.get("added"))) for each in requests)
    asking = [call for call in calls if call.get("requests")]
    again = len(requests) - len(asking) - repairs
    if vectors := [each for each in requests if "texts" in each]:  # a batch has its own retries, and others' tokens
        again = sum(int(_number(each.get("retries")) or 0) for each in vectors)
        texts = sum(int(_number(each["texts"]) or 0) for each in vectors)
        yield f"{_numbered(len(vectors), 'request')} with {_numbered(texts, 'text')} of several rows"
    if again > 0:
        yield "1 retry" if again == 1 else f"{count(again)} retries"
    if repairs:
        yield "1 repair" if repairs == 1 else f"{count(repairs)} repairs"
    tokens = sum(int(_number(value) or 0) for each in requests for name, value in
                 _dict(_dict(each.get("reply")).get("usage")).items() if name != "cached")  # fmt: skip
    if tokens:
        yield f"{amount(tokens)} tokens"
    if seconds := sum(_number(call.get("seconds")) or 0.0 for call in calls):
        yield _time(seconds)
    failed = [words(_said(call.get("status"))) for call in calls if call.get("status") not in (None, "ok")]
    yield from dict.fromkeys(failed[:3])


def _numbered(n: int, what: str) -> str:
    return f"{count(n)} {what}{'' if n == 1 else 's'}"


def _vector_facts(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts of a request for embeddings, whose texts are of several rows."""
    yield "texts", count(int(_number(request["texts"]) or 0))
    if model := _said(request.get("model")):
        yield "model", model
    if (tokens := _number(_dict(request.get("usage")).get("prompt"))) is not None:
        yield "tokens of all of them", amount(tokens)
    if size := int(_number(request.get("size")) or 0):
        yield "numbers of a vector", count(size)
    if again := int(_number(request.get("retries")) or 0):
        yield "sent again", count(again)
    if seconds := _time(request.get("seconds")):
        yield "time", seconds


def _asked(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts of the judge or target: names and texts."""
    for name, value in said.items():
        for key, each in value.items() if isinstance(value, Mapping) else [(name, value)]:
            if each not in (None, "", {}) and key != "key_by_value":
                yield short(f"header {key}" if name == "headers" else key).replace("_", " "), _said(each)


def _time(seconds: Any) -> str:
    """A time, empty where it is unknown."""
    number = _number(seconds)
    if number is None:
        return ""
    return duration(number) if number >= 1 else f"{number * 1000:,.0f} ms"


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _said(value: Any) -> str:
    """A short text, whatever the value."""
    if isinstance(value, Mapping) and "text" in value:
        value = value["text"]
    return short("" if value is None else value if isinstance(value, str) else json.dumps(value), 2000)


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15 else None
    )
