"""The table of evaluators: what each needs, its scale and its kind. Validation, docs and web pages read it.

It is data alone: the module of an evaluator is imported when the evaluator is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from valor_gpu.judge.metrics.table import RATINGS, VALOR, Rating, ValorRating

_ANSWERS = frozenset({"answer", "ground_truth"})
_ANSWER = frozenset({"answer"})
_OVERLAP = "valor_gpu.evaluation.evaluators.overlap"
_CORPUS = "valor_gpu.evaluation.evaluators.corpus"
_CHECKS = "valor_gpu.evaluation.evaluators.checks"
_RETRIEVAL = "valor_gpu.evaluation.evaluators.retrieval"
_DOCUMENTS = frozenset({"retrieved_documents", "retrieval_ground_truth"})
_JUDGE = "valor_gpu.judge.metrics.make:judged_metric"


@dataclass(frozen=True)
class EvaluatorInfo:
    """A row of the table of evaluators.

    Attributes:
        name: unique.
        kind: ``text`` (computed from texts), ``corpus`` (computed from texts, counts are pooled over rows), ``check``
            (a rule without a model), ``retrieval`` (computed from retrieved documents), ``quality`` and ``safety``
            (judged), ``pairwise`` (two answers, judged).
        home: ``module:factory``; the factory takes the name and then the parameters by keyword.
        requires: canonical names of the fields that a row needs.
        low: least value.
        high: largest value; None without a bound.
        higher_is_better: None where neither is.
        summary: what it measures, one line.
        parameters: what can be set, name to a line of explanation.
        needs: what must be given beside data: of ``judge``, ``embed``, ``wordnet``.
        tasks: kinds of rows that it scores, of ``qa`` and ``chat``.
    """

    name: str
    kind: str
    home: str
    requires: frozenset[str]
    low: float
    high: float | None
    summary: str
    higher_is_better: bool | None = True
    parameters: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset({"qa"})


def _text(name: str, summary: str, parameters: Mapping[str, str] | None = None, **more: Any) -> EvaluatorInfo:
    low = more.pop("low", 0.0)
    return EvaluatorInfo(name, "text", f"{_OVERLAP}:make", _ANSWERS, low, 1.0, summary, True, parameters or {}, **more)


def _corpus(name: str, summary: str, high: float | None, better: bool) -> EvaluatorInfo:
    home = f"{_CORPUS}:make"
    return EvaluatorInfo(name, "corpus", home, _ANSWERS, 0.0, high, summary, better)


def _check(name: str, summary: str, parameters: Mapping[str, str], **more: Any) -> EvaluatorInfo:
    row: dict[str, Any] = {"requires": _ANSWER, "low": 0.0, "high": 1.0, **more}
    return EvaluatorInfo(name, "check", f"{_CHECKS}:make", summary=summary, parameters=parameters, **row)


def _retrieval(name: str, summary: str, parameters: Mapping[str, str] | None = None, **more: Any) -> EvaluatorInfo:
    row: dict[str, Any] = {"low": 0.0, "high": 1.0, **more}
    home, given = f"{_RETRIEVAL}:make", parameters or {}
    return EvaluatorInfo(name, "retrieval", home, _DOCUMENTS, summary=summary, parameters=given, **row)


_PUNKT = {"punkt": "folder of NLTK's English Punkt model; without it a sentence ends by rule"}
_WORDS = {
    "tokenizer": "how texts become words: alphanumeric (runs of a-z and 0-9, the default), unicode (any script),"
    " whitespace, characters, nonspace, plain or valor"
}
_COMPUTED = (
    _text("f1_score", "F1 of the words that answer and ground truth share, as SQuAD normalises them"),
    _text(
        "exact_match",
        "1 where the answer equals a ground truth",
        {
            "ignore_case": "compare in lower case",
            "ignore_punctuation": "leave out ASCII punctuation",
            "ignore_numbers": "leave out the digits 0 to 9",
            "ignore_articles": "leave out a, an, the",
            "ignore_white_space": "make runs of white space one blank, none at the ends",
        },
    ),
    _text("bleu", "BLEU-4 of a sentence, smoothing method 4, Azure's tokens", _PUNKT),
    _text("gleu", "Google-BLEU of a sentence, Azure's tokens", _PUNKT),
    _text(
        "meteor",
        "METEOR: words equal, by stem or by synonym",
        {"wordnet": "folder of a WordNet 3 database", "alpha": "0.9", "beta": "3", "gamma": "0.5", **_PUNKT},
        needs=frozenset({"wordnet"}),
    ),
    *(_text(f"rouge{n}", f"ROUGE-{n}: F-measure of shared {n}-grams", _WORDS) for n in range(1, 6)),
    _text("rougeL", "ROUGE-L: F-measure of the longest common subsequence", _WORDS),
    _text(
        "ada_similarity",
        "cosine of the embeddings of answer and ground truth",
        {"embed": "a function from a list of texts to their vectors, such as OpenAIEmbedder"},
        low=-1.0,
        needs=frozenset({"embed"}),
    ),
    _text("valor_bleu", "BLEU-4 of a sentence as Valor computes it, without smoothing"),
    _text("valor_rouge1", "ROUGE-1 as Valor computes it: F-measure", _WORDS),
    _text("valor_rouge2", "ROUGE-2 as Valor computes it: F-measure", _WORDS),
    _text("valor_rougeL", "ROUGE-L as Valor computes it: F-measure", _WORDS),
    _text("valor_rougeLsum", "ROUGE-L over lines as Valor computes it: F-measure", _WORDS),
    _corpus("corpus_bleu", "BLEU of all rows together, as sacreBLEU computes it", 1.0, True),
    _corpus("corpus_chrf", "chrF of all rows together, as sacreBLEU computes it", 1.0, True),
    _corpus("word_error_rate", "edits of words of all rows, divided by the words of their ground truths", None, False),
    _corpus(
        "char_error_rate",
        "edits of characters of all rows, divided by the characters of their ground truths",
        None,
        False,
    ),
)
_CHECKED = (
    _check(
        "contains",
        "1 where the answer holds the texts that it must hold",
        {
            "texts": "a text or several; without them the ground truth",
            "mode": "any or all",
            "ignore_case": "compare in lower case",
        },
    ),
    _check(
        "regex",
        "1 where a regular expression finds something in the answer",
        {"pattern": "the expression", "full": "the whole answer must match", "ignore_case": "compare in lower case",
         "timeout": "seconds for a row, 1"},
    ),
    _check(
        "json_schema",
        "1 where the answer is JSON that satisfies a schema",
        {"schema": "a JSON schema as a mapping; without it any JSON will do"},
    ),
    _check("length", "length of the answer, or 1 where it lies within limits",
           {"unit": "characters or words", "least": "smallest length", "most": "largest length"}, high=None,
           higher_is_better=None),
    _check("latency", "seconds that the target took, or 1 where they are within a limit",
           {"most": "largest number of seconds"}, requires=frozenset({"seconds"}), high=None, higher_is_better=False),
    _check("cost", "cost of the target's answer, or 1 where it is within a limit", {"most": "largest cost"},
           requires=frozenset({"cost"}), high=None, higher_is_better=False),
)  # fmt: skip
_TOP_K = {"k": "how many documents from the top count; without it all"}
_REL = {**_TOP_K, "rel": "least label of a relevant document, 1"}
_LABELS = {
    "ground_truth_label_min": "label of an irrelevant document, 0",
    "ground_truth_label_max": "largest label, 4",
}
_RETRIEVED = (
    _retrieval(
        "ndcg",
        "normalised discounted gain of the first documents, Azure's ndcg@3",
        {"k": "how many documents from the top count, 3", "gain": "exponential (2^label - 1) or linear (the label)"},
    ),
    _retrieval("xdcg", "labels of the first three documents, discounted by 0.6 a rank, times 25: Azure's xdcg@3",
               _LABELS, high=None),
    _retrieval("fidelity", "how much of all relevant documents was retrieved, weighted by 2^(label + 1) - 1", _LABELS),
    _retrieval("top1_relevance", "label of the first document, 0 without one", high=None),
    _retrieval("top3_max_relevance", "largest label of the first three documents", high=None),
    _retrieval("holes", "retrieved documents without a label", high=None, higher_is_better=False),
    _retrieval("holes_ratio", "fraction of the retrieved documents without a label", higher_is_better=False),
    _retrieval("total_retrieved_documents", "how many documents were retrieved", high=None),
    _retrieval("total_ground_truth_documents", "how many documents have a label", high=None),
    _retrieval("reciprocal_rank", "1 / rank of the first relevant document, 0 without one", _REL),
    _retrieval("retrieval_recall", "fraction of the relevant documents that was retrieved", _REL),
    _retrieval("retrieval_precision", "fraction of the retrieved documents that is relevant", _REL),
    _retrieval("hit_rate", "1 where a relevant document was retrieved, else 0", _REL),
)  # fmt: skip
_PROMPTS = {"prompts": "prompts of your own by name, or a folder of them"}


def _judged(name: str, rating: Rating) -> EvaluatorInfo:
    parameters = {
        "task": " or ".join(rating.prompts),
        **_PROMPTS,
        "round_fractions": "a rating of 4.5 is 5; otherwise it is none",
    }
    return EvaluatorInfo(
        name,
        "safety" if rating.is_safety else "quality",
        _JUDGE,
        rating.need("qa"),
        rating.low,
        rating.high,
        rating.summary,
        not rating.is_safety,
        parameters,
        frozenset({"judge"}),
        frozenset(rating.prompts),
    )


_PREFERENCE = EvaluatorInfo(
    "preference",
    "pairwise",
    _JUDGE,
    frozenset({"question", "answer", "baseline_answer"}),
    0.0,
    1.0,
    "whether the answer is better than the baseline's, asked in both orders",
    parameters=_PROMPTS,
    needs=frozenset({"judge"}),
)


def _valor(name: str, rating: ValorRating) -> EvaluatorInfo:
    scale = rating.low, rating.high
    more: dict[str, Any] = {"parameters": _PROMPTS, "needs": frozenset({"judge"})}
    return EvaluatorInfo(
        name, "quality", _JUDGE, rating.fields, *scale, rating.summary, rating.higher_is_better, **more
    )


_JUDGED = (
    *(_judged(name, rating) for name, rating in RATINGS.items()),
    _PREFERENCE,
    *(_valor(name, rating) for name, rating in VALOR.items()),
)

_ROWS = (*_COMPUTED, *_CHECKED, *_RETRIEVED, *_JUDGED)
EVALUATORS: Mapping[str, EvaluatorInfo] = MappingProxyType({row.name: row for row in _ROWS})
"""Every evaluator by name."""
