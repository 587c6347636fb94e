"""What a run keeps of the calls behind a score or an answer: masked, bounded, with or without prompts. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.engine.metrics import RunEvaluator
from valor_gpu.evaluation.engine.plan import Plan
from valor_gpu.evaluation.engine.scoring import row_fields
from valor_gpu.evaluation.engine.services import judge_identity
from valor_gpu.evaluation.engine.work import Work
from valor_gpu.evaluation.models import identity_of
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge.calls import Call, Record, Request, VectorRequest
from valor_gpu.judge.metrics.fields import as_text
from valor_gpu.judge.protocol import Judge, Message, Reply, Status, describe
from valor_gpu.store import StoredScore, StoredTrace
from valor_gpu.store.traces import ANSWER, TraceBase
from valor_gpu.text.served_embedding import OpenAIEmbedder

LONGEST_TEXT = 100_000
"""Characters of a text of a trace."""
LONGEST_TRACE = 4_000_000
"""Characters of all texts of a trace."""


class Tracer:
    """Makes the traces of a run.

    Args:
        secrets: masked in every text.
        judge: of the run; None without one.
        prompts: whether prompts and requests are kept.
    """

    def __init__(self, secrets: Secrets, judge: Judge | None, prompts: bool) -> None:
        self._secrets, self._prompts = secrets, prompts
        self._judge = secrets.mask_json(judge_identity(judge))
        self._bases: dict[str, TraceBase] = {}
        self._new: list[TraceBase] = []
        self._offered: set[str] = set()

    def of_score(self, record: Record, row: int, evaluator: str, repeat: int) -> StoredTrace:
        """Returns the trace of a score."""
        return self._trace(record, {"judge": self._judge}, row, evaluator, repeat, True)

    def of_vectors(
        self,
        requests: Sequence[VectorRequest],
        texts: Sequence[tuple[str, str]],
        evaluator: RunEvaluator,
        score: StoredScore,
    ) -> StoredTrace:
        """Returns the trace of a score by embeddings, without a call where no request was sent for its texts.

        Args:
            requests: that were sent for the rows of a portion.
            texts: of the row, each with the name of its field.
            evaluator: of the score.
            score: of the row.
        """
        own = {text for _, text in texts}
        sent = [each for each in requests if not own.isdisjoint(each.texts)]
        writer = _Writer(self._secrets, self._prompts)
        content = {
            "prompts": self._prompts,
            "embedding": self._secrets.mask_json(identity_of(getattr(evaluator.tool, "embed", None))),
            "calls": [writer.vectors(sent, texts, score)] if sent else [],
        }
        trace = StoredTrace(score.row, score.evaluator, 0, content, self._bases.get(score.evaluator))
        self._offer(trace, True)
        return trace

    def new_bases(self) -> list[TraceBase]:
        """Returns the bases that are to be kept together with the first traces of their evaluators."""
        found, self._new = self._new, []
        return found

    def use(self, bases: Iterable[TraceBase]) -> None:
        """Makes later traces shorter by bases that are in the store now."""
        self._bases.update({base.evaluator: base for base in bases})

    def of_answer(self, record: Record, row: int, is_final: bool) -> StoredTrace:
        """Returns the trace of an answer of the target.

        Args:
            record: of the calls.
            row: number of the row.
            is_final: whether the row has an answer, so that nothing replaces it.
        """
        target = self._secrets.mask_json(record.target)
        return self._trace(record, {"target": target}, row, ANSWER, 0, is_final)

    def _trace(
        self, record: Record, asked: Mapping[str, Any], row: int, evaluator: str, repeat: int, is_final: bool
    ) -> StoredTrace:
        trace = StoredTrace(row, evaluator, repeat, self._content(record, asked), self._bases.get(evaluator))
        self._offer(trace, is_final)
        return trace

    def _offer(self, trace: StoredTrace, is_final: bool) -> None:
        """Offers the first final trace of an evaluator as the base of later ones."""
        if is_final and trace.evaluator not in self._offered:
            self._offered.add(trace.evaluator)
            self._new.append(trace.as_base())

    def _content(self, record: Record, asked: Mapping[str, Any]) -> dict[str, Any]:
        writer = _Writer(self._secrets, self._prompts)
        return {"prompts": self._prompts, **asked, "calls": [writer.call(call) for call in record.calls]}


def vector_traces(
    tracer: Tracer, plan: Plan, works: Iterable[Work], scores: Iterable[StoredScore], requests: Sequence[VectorRequest]
) -> list[StoredTrace]:
    """Returns the traces of the scores by embeddings of a portion of rows.

    Args:
        tracer: of the run.
        plan: of the run.
        works: the rows of the portion.
        scores: of these rows.
        requests: that were sent for them.
    """
    tools = {each.name: each for each in plan.computed if isinstance(getattr(each.tool, "embed", None), OpenAIEmbedder)}
    by_number = {work.number: work for work in works}
    found = []
    for score in scores if tools else ():
        if (tool := tools.get(score.evaluator)) is not None:
            work = by_number[score.row]
            fields = work.fields if work.fields is not None else row_fields(plan, work)
            texts = list(_texts_of(fields, sorted(tool.requires)))
            found.append(tracer.of_vectors(requests, texts, tool, score))
    return found


def _texts_of(fields: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The texts of a row, each with the name of its field; a field may have several."""
    for name in names:
        values = as_text(fields.get(name))
        several = isinstance(values, (list, tuple))
        for text in map(as_text, values if several else [values]):
            if isinstance(text, str) and text:
                yield name, text


class _Writer:
    """Writes the calls of one trace, whose texts share :data:`LONGEST_TRACE`."""

    def __init__(self, secrets: Secrets, prompts: bool) -> None:
        self._secrets, self._prompts, self._left = secrets, prompts, LONGEST_TRACE

    def call(self, call: Call) -> dict[str, Any]:
        end = call.end
        found: dict[str, Any] = {}
        if self._prompts and call.arguments is not None:
            found["arguments"] = self._text(plain_text(call.arguments))
        elif self._prompts:
            found["messages"] = self._messages(call.messages)
        if call.has_returned:
            found["returned"] = self._text(plain_text(call.returned))
        if call.arguments is not None:
            return found  # a function ends as its row does
        found["requests"] = [self._request(each) for each in call.requests]
        if end is None:
            return {**found, "status": str(Status.CANCELLED)}
        if end.cached and end.reply is not None:
            found |= {"cached": True, "reply": self._reply(end.reply)}
        ended = {"status": str(end.status), "error": self._secrets.message(end.error), "seconds": end.seconds}
        return {**found, **{name: value for name, value in ended.items() if value}}

    def vectors(
        self, requests: Sequence[VectorRequest], texts: Sequence[tuple[str, str]], score: StoredScore
    ) -> dict[str, Any]:
        """The call of a score by embeddings: its texts, and the requests that they were sent in with others."""
        found: dict[str, Any] = {}
        if self._prompts:
            found["messages"] = [{"role": name, "content": self._text(text)} for name, text in texts]
        found["requests"] = [self._vector_request(each) for each in requests]
        error = "" if score.value is not None else self._secrets.message(score.reason)
        return {**found, "status": score.status, **({"error": error} if error else {})}

    def _vector_request(self, request: VectorRequest) -> dict[str, Any]:
        rest = {
            "error": self._secrets.message(request.error),
            "seconds": request.seconds,
            "retries": request.retries,
            "model": self._secrets.mask_known(request.model),
            "usage": dict(vars(request.usage)) if request.usage.total else None,
            "size": request.size,
        }
        found = {"status": request.status, "texts": len(request.texts)}
        return {**found, **{name: value for name, value in rest.items() if value}}

    def _request(self, request: Request) -> dict[str, Any]:
        found: dict[str, Any] = {"status": request.status}
        if self._prompts and request.messages:
            found["added"] = self._messages(request.messages)
        if request.reply is not None:
            found["reply"] = self._reply(request.reply)
        rest = {"error": self._secrets.message(request.error), "seconds": request.seconds, "waited": request.waited}
        return {**found, **{name: value for name, value in rest.items() if value}}

    def _reply(self, reply: Reply) -> dict[str, Any]:
        used = vars(reply.usage) if reply.usage.total else None
        rest = {
            "model": self._secrets.mask_known(reply.model),
            "usage": used and dict(used),
            "dropped": list(reply.dropped),
        }
        ended = getattr(reply, "ended", reply.finish_reason)  # a target's reply that was cut off is an answer
        found = {"text": self._text(reply.text), "finish_reason": self._secrets.mask_known(ended)}
        return {**found, **{name: value for name, value in rest.items() if value}}

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return [self._message(each) for each in messages]

    def _message(self, message: Any) -> dict[str, Any]:
        if not isinstance(message, Mapping):
            return {"role": "", "content": self._text(plain_text(message))}
        found = {"role": str(message.get("role", "")), "content": self._text(plain_text(message.get("content")))}
        rest = {name: value for name, value in message.items() if name not in ("role", "content")}
        return {**found, "rest": self._text(plain_text(rest))} if rest else found

    def _text(self, text: str) -> Any:
        """The text, or its beginning with the number of characters behind it."""
        most = min(LONGEST_TEXT, self._left)
        if len(text) <= most:
            self._left -= len(text)
            return self._secrets.mask_known(text)
        spare = self._secrets.longest  # half a secret may end what is masked, and is cut off
        shown = self._secrets.mask_known(text[: most + spare])
        kept = shown[: min(most, max(0, len(shown) - spare))]
        self._left -= len(kept)
        return {"text": kept, "left_out": max(1, len(text) - len(kept))}


def plain_text(value: Any) -> str:
    """Returns a text as it is, another value as JSON, and what JSON cannot express as its ``repr``.

    Example:
        >>> plain_text("a text"), plain_text({"a": [1, None]}), plain_text({1, 2})
        ('a text', '{"a": [1, null]}', '{1, 2}')
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return repr(value)
    except Exception as error:  # of the user's own class
        return f"{type(value).__name__} without a text: {describe(error)}"
