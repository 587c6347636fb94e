"""Judging by language models: judges, one scheduler for a run, tolerant parsing, a cache, and honest aggregates.

Nothing here imports torch or opens a connection until a judge that needs it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.judge.azure import AzureOpenAIJudge
    from valor_gpu.judge.cache import JudgeCache, cache_key
    from valor_gpu.judge.limits import Limits
    from valor_gpu.judge.local import LogitsJudge, TransformersJudge
    from valor_gpu.judge.metric import FailedJudgement, LLMMetric, Question, question_metric
    from valor_gpu.judge.openai import OpenAIJudge
    from valor_gpu.judge.parse import (
        Expected,
        NotApplicable,
        ParseError,
        Score,
        expected_score,
        object_schema,
        parse_object,
        parse_score,
        score_schema,
    )
    from valor_gpu.judge.progress import Progress
    from valor_gpu.judge.protocol import CallableJudge, Judge, JudgeError, Judgement, Reply, Status, Usage
    from valor_gpu.judge.rows import JudgedRow
    from valor_gpu.judge.run import JudgeAborted, JudgeCancelled, JudgeInterrupted, JudgeRun, run_judge, run_judge_async
    from valor_gpu.judge.scheduler import Scheduler
    from valor_gpu.judge.statistics import Prices, Summary, standard_error, summarize, variance_split
    from valor_gpu.judge.stream import stream_judge, stream_judge_async
    from valor_gpu.judge.thoughts import add_thought_marks

__all__ = [
    "AzureOpenAIJudge",
    "CallableJudge",
    "Expected",
    "FailedJudgement",
    "Judge",
    "JudgeAborted",
    "JudgeCache",
    "JudgeCancelled",
    "JudgeError",
    "JudgeInterrupted",
    "JudgeRun",
    "JudgedRow",
    "Judgement",
    "LLMMetric",
    "Limits",
    "LogitsJudge",
    "NotApplicable",
    "OpenAIJudge",
    "ParseError",
    "Prices",
    "Progress",
    "Question",
    "Reply",
    "Scheduler",
    "Score",
    "Status",
    "Summary",
    "TransformersJudge",
    "Usage",
    "add_thought_marks",
    "cache_key",
    "expected_score",
    "object_schema",
    "parse_object",
    "parse_score",
    "question_metric",
    "run_judge",
    "run_judge_async",
    "score_schema",
    "standard_error",
    "stream_judge",
    "stream_judge_async",
    "summarize",
    "variance_split",
]

_HOMES = {
    "azure": ("AzureOpenAIJudge",),
    "cache": ("JudgeCache", "cache_key"),
    "limits": ("Limits",),
    "local": ("LogitsJudge", "TransformersJudge"),
    "metric": ("FailedJudgement", "LLMMetric", "Question", "question_metric"),
    "openai": ("OpenAIJudge",),
    "parse": (
        "Expected",
        "NotApplicable",
        "ParseError",
        "Score",
        "expected_score",
        "object_schema",
        "parse_object",
        "parse_score",
        "score_schema",
    ),
    "protocol": ("CallableJudge", "Judge", "JudgeError", "Judgement", "Reply", "Status", "Usage"),
    "progress": ("Progress",),
    "run": ("JudgeAborted", "JudgeCancelled", "JudgeInterrupted", "JudgeRun", "run_judge", "run_judge_async"),
    "rows": ("JudgedRow",),
    "stream": ("stream_judge", "stream_judge_async"),
    "thoughts": ("add_thought_marks",),
    "scheduler": ("Scheduler",),
    "statistics": ("Prices", "Summary", "standard_error", "summarize", "variance_split"),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
