"""Evaluation of generated text, as valor_core has it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metrics.evaluate import JudgedTexts, evaluate_texts
from valor_gpu.judge.metrics.prompts import OwnPrompts
from valor_gpu.judge.metrics.rules import TextRow, text_rules
from valor_gpu.judge.metrics.text_base import PromptedMetric
from valor_gpu.judge.metrics.text_metrics import METRICS
from valor_gpu.judge.progress import Progress
from valor_gpu.judge.protocol import Judgement, Status
from valor_gpu.judge.statistics import Prices, Summary
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.evaluation import Evaluation, EvaluationParameters
from valor_gpu.valor.exceptions import MismatchingTextGenerationDatumError
from valor_gpu.valor.text_choices import COMPARISONS, NAMES, WITH_TRUTH, check_metrics, check_params
from valor_gpu.valor.text_judge import judge_of, retries_of

if TYPE_CHECKING:
    from valor_gpu.valor.schemas import Datum, GroundTruth, Prediction

_CONTEXT = ("context_list",)
_BOTH = ("prediction", "context_list")
_RATINGS = ("Coherence", "SummaryCoherence")
_SHOWN = {
    "ContextPrecision": _CONTEXT,
    "ContextRecall": _CONTEXT,
    "ContextRelevance": _CONTEXT,
    "Faithfulness": _BOTH,
    "Hallucination": _BOTH,
}


@dataclass(frozen=True)
class Answer:
    """One answer to one question.

    Attributes:
        uid: of the datum.
        row: its texts.
        cluster: answers of one cluster are not independent.
    """

    uid: str | None
    row: TextRow
    cluster: Hashable

    def parameters(self, metric: str) -> dict[str, Any]:
        """What a metric dict shows of an answer."""
        contexts = None if self.row.contexts is None else list(self.row.contexts)
        shown = {"prediction": self.row.response, "context_list": contexts}
        return {"datum_uid": self.uid} | {name: shown[name] for name in _SHOWN.get(metric, ("prediction",))}


@dataclass
class Found:
    """What became of one metric of one answer.

    Attributes:
        value: None where there is no number.
        parameters: what the metric dict shows besides those of the answer.
        failure: why there is no number.
    """

    value: float | dict[str, float] | None
    parameters: dict[str, Any] = field(default_factory=dict)
    failure: dict[str, Any] | None = None


def evaluate_text_generation(
    predictions: Sequence[Prediction],
    metrics_to_return: Sequence[MetricType | str],
    groundtruths: Sequence[GroundTruth] = (),
    llm_api_params: Mapping[str, Any] | None = None,
    metric_params: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    judge: Any = None,
    compat: str | None = None,
    prompts: OwnPrompts = None,
    raise_on_empty: bool | None = None,
    limits: Limits | None = None,
    cache: JudgeCache | str | None = None,
    cluster: str | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
) -> Evaluation:
    """Metrics of generated text: a dict for every answer and metric.

    A judged metric that got no value has ``"status": "error"`` and ``"value": None``; ``meta["failures"]`` says why and
    holds the judge's last reply, ``meta["judged"]`` has for every judged metric the mean, its standard error, failures
    by cause, the bounds that they leave, tokens and prompts. ROUGE and BLEU ask no judge.

    Args:
        predictions: answers (``Annotation.text``, ``Annotation.context_list``) to questions (``Datum.text``).
        metrics_to_return: of :meth:`~valor_gpu.valor.enums.MetricType.text_generation`, or ``Coherence``.
        groundtruths: correct answers by ``Datum.uid``, any number each. AnswerCorrectness, BLEU, ContextPrecision,
            ContextRecall and ROUGE need them.
        llm_api_params: which judge, see :func:`~valor_gpu.valor.text_judge.judge_of`.
        metric_params: by metric: ``BLEU`` takes ``weights``; ``ROUGE`` takes ``rouge_types``, ``use_stemmer`` (or
            ``rouge_use_stemmer``) and ``tokenizer`` (``unicode`` for words of any script); ``ContextPrecision`` takes
            ``combine``.
        judge: a :class:`valor_gpu.judge.Judge`, or a callable from messages to text, instead of ``llm_api_params``.
        compat: None, or the release whose rules apply: ``valor-api``, ``valor-core``, ``valor-lite``.
        prompts: the user's own, see :func:`valor_gpu.text.judged.load_prompts`.
        raise_on_empty: an answer without contexts or correct answers is an error; None: as ``compat`` has it.
        limits: how the judge may be asked.
        cache: keeps replies; a run that was killed goes on where it was.
        cluster: key of ``Datum.metadata`` whose values say which answers belong together, for standard errors; None:
            answers to one datum belong together.
        prices: of tokens, for the cost.
        progress: called after every judgement; True shows a bar on stderr.

    Raises:
        InputError: data or choices that cannot be evaluated; nothing is asked then.
        MismatchingTextGenerationDatumError: datums of one uid have different texts.

    Example:
        >>> from valor_gpu.valor import Annotation, Datum, GroundTruth, Prediction
        >>> datum = Datum("q1", text="Where is the mill?")
        >>> groundtruth = GroundTruth(datum, [Annotation(text="The mill is in Rook.")])
        >>> prediction = Prediction(datum, [Annotation(text="It is in Rook.")])
        >>> metrics = ["ROUGE", "Coherence"]
        >>> evaluation = evaluate_text_generation([prediction], metrics, [groundtruth], judge=lambda messages: "4")
        >>> for metric in evaluation.metrics:  # doctest: +ELLIPSIS
        ...     print(metric["type"], metric["status"], metric["value"])
        ROUGE success {'rouge1': 0.666..., 'rouge2': 0.571..., 'rougeL': 0.666..., 'rougeLsum': 0.666...}
        Coherence success 4
    """
    plan = make_plan(metrics_to_return, llm_api_params, metric_params, judge, compat, prompts, raise_on_empty, limits)
    return evaluate_plan(plan, predictions, groundtruths, cache, cluster, prices, progress)


@dataclass(frozen=True)
class Plan:
    """What is asked of an evaluation of generated text, checked.

    Attributes:
        parameters: as the evaluation shows them.
        names: metrics, in the order in which they are shown.
        choices: of each metric.
        judged: the metrics that ask the judge.
        judge: the judge; None without judged metrics.
        compat: the release whose rules apply.
        strict: an answer without contexts or correct answers is an error.
        limits: how the judge may be asked.
    """

    parameters: EvaluationParameters
    names: list[str]
    choices: dict[str, dict[str, Any]]
    judged: list[PromptedMetric]
    judge: Any
    compat: str | None
    strict: bool
    limits: Limits

    @property
    def compared(self) -> list[str]:
        """The metrics that ask no judge."""
        return [name for name in self.names if name in COMPARISONS]


def make_plan(
    metrics_to_return: Sequence[MetricType | str],
    llm_api_params: Mapping[str, Any] | None = None,
    metric_params: Mapping[str, Mapping[str, Any]] | None = None,
    judge: Any = None,
    compat: str | None = None,
    prompts: OwnPrompts = None,
    raise_on_empty: bool | None = None,
    limits: Limits | None = None,
) -> Plan:
    """Checks choices once; the arguments are those of :func:`evaluate_text_generation`.

    Raises:
        InputError: a choice that cannot be.
    """
    names = check_metrics(metrics_to_return, NAMES)
    choices = check_params(metric_params, names)
    rules = text_rules(compat)
    strict = rules.raise_on_empty if raise_on_empty is None else raise_on_empty
    asking = limits or Limits(repairs=rules.repairs)
    if retries := retries_of(llm_api_params):
        asking = replace(asking, reasks=retries)
    judged = [METRICS[name](prompts, compat, strict, **choices[name]) for name in names if name in METRICS]
    parameters = EvaluationParameters(
        metrics_to_return=[MetricType(name) for name in names],
        llm_api_params=None if llm_api_params is None else dict(llm_api_params),
        metric_params=None if metric_params is None else {str(key): dict(one) for key, one in metric_params.items()},
    )
    asked = judge_of(llm_api_params, judge, prompts) if judged else None
    return Plan(parameters, names, choices, judged, asked, compat, strict, asking)


def evaluate_plan(
    plan: Plan,
    predictions: Sequence[Prediction],
    groundtruths: Sequence[GroundTruth] = (),
    cache: JudgeCache | str | None = None,
    cluster: str | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], object] | bool = False,
) -> Evaluation:
    """Evaluates answers as planned; the other arguments are those of :func:`evaluate_text_generation`."""
    begun = time.perf_counter()
    answers = read_answers(predictions, groundtruths, sorted(WITH_TRUTH.intersection(plan.names)), cluster)
    _check_answers(answers, plan.judged, plan.compared, plan.strict)
    columns = {name: _comparison(name, answers, plan.choices[name]) for name in plan.compared}
    run = None
    if plan.judged:
        rows, clusters = [answer.row for answer in answers], [answer.cluster for answer in answers]
        run = evaluate_texts(rows, plan.judged, plan.judge, compat=plan.compat, limits=plan.limits, cache=cache,
                             clusters=clusters, prices=prices, progress=progress)  # fmt: skip
        columns |= {name: [_of_judgement(row[0], name) for row in run.judgements[name]] for name in run.judgements}
    columns = {name: columns[name] for name in plan.names}
    return _evaluation(plan.parameters, answers, columns, run, time.perf_counter() - begun)


def read_answers(
    predictions: Sequence[Prediction],
    groundtruths: Sequence[GroundTruth],
    with_truth: Sequence[str],
    cluster: str | None,
) -> list[Answer]:
    """One answer per annotation of ``predictions``, with the correct answers to its question.

    Args:
        predictions: answers; at least one.
        groundtruths: correct answers.
        with_truth: the metrics asked for that need ground truths.
        cluster: key of the metadata that says which answers belong together.

    Raises:
        InputError: objects that cannot be, no predictions, or metrics that need ground truths and have none at all.
        MismatchingTextGenerationDatumError: datums of one uid have different texts.
    """
    from valor_gpu.valor.schemas import GroundTruth, Prediction

    for name, objects in (("predictions", predictions), ("groundtruths", groundtruths)):
        check_type(name, objects, (list, tuple))
    if not predictions:
        raise InputError("predictions must hold at least one Prediction but is empty")
    if with_truth and not groundtruths:
        raise InputError(f"groundtruths must be given for {', '.join(with_truth)} but there are none")
    questions: dict[str | None, str] = {}
    truths: dict[str | None, list[str]] = {}
    for truth in groundtruths:
        check_type("groundtruths", truth, GroundTruth)
        _check_same_question(truth.datum, questions)
        for annotation in truth.annotations:
            if annotation.text is None:
                raise InputError(f"groundtruths must have texts but one of datum {truth.datum.uid!r} has none")
            truths.setdefault(truth.datum.uid, []).append(annotation.text)
    answers: list[Answer] = []
    for prediction in predictions:
        check_type("predictions", prediction, Prediction)
        datum = prediction.datum
        _check_same_question(datum, questions)
        group = ("datum", datum.uid) if cluster is None else (cluster, _cluster_of(datum, cluster))
        for annotation in prediction.annotations:
            row = TextRow(datum.text, annotation.text, truths.get(datum.uid, ()), annotation.context_list)
            answers.append(Answer(datum.uid, row, group if datum.uid is not None or cluster else len(answers)))
    return answers


def _check_same_question(datum: Datum, questions: dict[str | None, str]) -> None:
    """Remembers a datum's text; raises when its uid had another."""
    if datum.uid is None or datum.text is None:
        return
    if questions.setdefault(datum.uid, datum.text) != datum.text:
        raise MismatchingTextGenerationDatumError(f"datums of uid {datum.uid!r} must have one text but have several")


def _cluster_of(datum: Datum, cluster: str) -> Hashable:
    if cluster not in (datum.metadata or {}):
        raise InputError(f"cluster must be a key of every Datum.metadata but datum {datum.uid!r} has no {cluster!r}")
    value: Hashable = (datum.metadata or {})[cluster]
    return value


def _check_answers(
    answers: Sequence[Answer], judged: Sequence[PromptedMetric], compared: Sequence[str], strict: bool
) -> None:
    for answer in answers:
        where = f"a prediction of datum {answer.uid!r}"
        for metric in judged:
            metric.check(answer.row, where)
        for name in compared:
            if answer.row.response is None:
                raise InputError(f"{name} needs response but {where} has none")
            if strict and not answer.row.references:
                raise InputError(f"{name} needs references but {where} has none")


def _comparison(name: str, answers: Sequence[Answer], choices: Mapping[str, Any]) -> list[Found]:
    """ROUGE or BLEU of all answers."""
    found = [Found(None, dict(choices), _NO_TRUTH) for _ in answers]
    places = [at for at, answer in enumerate(answers) if answer.row.references]
    texts = [answers[at].row.response or "" for at in places]
    values = _compared(name, texts, [answers[at].row.references for at in places], choices)
    for at, value in zip(places, values):
        found[at] = Found(value, dict(choices))
    return found


_NO_TRUTH = {"status": str(Status.NOT_APPLICABLE), "error": "the datum has no ground truth", "reply": None}


def _compared(
    name: str, texts: list[str], references: list[Sequence[str]], choices: Mapping[str, Any]
) -> Iterator[float | dict[str, float]]:
    if name == "BLEU":
        from valor_gpu.text import sentence_bleu

        yield from sentence_bleu(texts, references, choices["weights"]).tolist()
        return
    from valor_gpu.text import rouge_scores

    split = choices.get("tokenizer")
    scores = rouge_scores(texts, references, choices["rouge_types"], choices["use_stemmer"], tokenizer=split)
    columns = {kind: score.fmeasure.tolist() for kind, score in scores.items()}
    yield from ({kind: column[at] for kind, column in columns.items()} for at in range(len(texts)))


def _of_judgement(judgement: Judgement, metric: str) -> Found:
    if judgement.ok:
        value = float(judgement.value)
        # Ratings are whole numbers in valor_core; a judge that weighs ratings by probability gives others.
        return Found(int(value) if metric in _RATINGS and value.is_integer() else value)
    reply = None if judgement.reply is None else judgement.reply.text
    return Found(None, {}, {"status": str(judgement.status), "error": judgement.error, "reply": reply})


def _evaluation(
    parameters: EvaluationParameters,
    answers: Sequence[Answer],
    columns: Mapping[str, list[Found]],
    run: JudgedTexts | None,
    seconds: float,
) -> Evaluation:
    from valor_gpu.valor import metrics as classes

    found, failures = [], []
    for at, answer in enumerate(answers):
        for name, column in columns.items():
            one = column[at]
            shown = {**answer.parameters(name), **one.parameters}
            status = "error" if one.value is None else "success"
            found.append(getattr(classes, f"{name}Metric")(status, one.value, shown).to_dict())
            if one.failure is not None:
                failures.append({"type": name, **answer.parameters(name), **one.failure})
    meta: dict[str, Any] = {
        "datums": len({answer.uid for answer in answers}),
        "annotations": len(answers),
        "duration": seconds,
        "failures": failures,
    }
    if run is not None:
        meta["judged"] = {name: _plain(one, run.prompts[name]) for name, one in run.summaries.items()}
    return Evaluation(parameters, found, [], [], [], meta)


def _plain(summary: Summary, prompts: Sequence[str]) -> dict[str, Any]:
    """A summary as JSON values: a number that does not exist is None, with a reason."""
    names = ("mean", "standard_error", "n", "n_scored", "n_failed", "lower", "upper", "cached", "attempts", "cost")
    values = {name: getattr(summary, name) for name in names}
    for name, value in values.items():
        if isinstance(value, float) and math.isnan(value):
            values[name] = None
    usage = {"prompt": summary.usage.prompt, "completion": summary.usage.completion, "cached": summary.usage.cached}
    reasons = {name: reason for name, reason in summary.reasons.items() if name in names}
    return {**values, "usage": usage, "prompts": list(prompts), "reasons": reasons}
