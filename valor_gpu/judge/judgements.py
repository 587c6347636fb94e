"""Judgements that replies give, and failures that exceptions of a judge are. No torch."""

from __future__ import annotations

import asyncio

from valor_gpu.judge.metric import Question
from valor_gpu.judge.parse import NotApplicable, ParseError
from valor_gpu.judge.protocol import Judge, JudgeError, Judgement, Reply, Status, describe, text_of, token_limit

_FINISHED = {
    "length": (Status.TRUNCATED, "the reply was cut off at {limit}"),
    "model_length": (Status.TRUNCATED, "the reply was cut off at the length of the model's context: shorten the texts"),
    "content_filter": (Status.CONTENT_FILTER, "the server's content filter withheld the reply"),
    "refusal": (Status.REFUSED, "the judge refused"),
    "tool_calls": (Status.PARSE_ERROR, "the judge called a tool instead of answering"),
    "function_call": (Status.PARSE_ERROR, "the judge called a function instead of answering"),
}


def raised(error: BaseException) -> JudgeError:
    """Returns the failure that an exception of a judge is."""
    return JudgeError(Status.JUDGE_ERROR, f"the judge raised {describe(error)}", max_retries=0)


def is_cancelled() -> bool:
    """Returns whether the running task is being cancelled; True before Python 3.11, where nobody can tell."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or bool(cancelling())


def judgement_of(question: Question, reply: Reply, judge: Judge) -> Judgement:
    """Returns the judgement that a reply gives."""
    if reply.finish_reason in _FINISHED:
        status, error = _FINISHED[reply.finish_reason]
        return Judgement(None, status, reply, error=error.replace("{limit}", token_limit(judge.identity)))
    try:
        return Judgement(question.parse(reply if question.whole_reply else reply.text), Status.OK, reply)
    except NotApplicable as error:
        return Judgement(None, Status.NOT_APPLICABLE, reply, error=text_of(error))
    except ParseError as error:
        return Judgement(None, Status.PARSE_ERROR, reply, error=text_of(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's parser does with this reply, exits and panics included
        message = f"the reply could not be parsed: {describe(error)}"
        return Judgement(None, Status.PARSE_ERROR, reply, error=message)
