"""evaluate(): a data set in, scored rows and a summary out. No torch."""

from __future__ import annotations

import os
import secrets as randomness
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.errors import InputTypeError
from valor_gpu.evaluation.config import RunConfig
from valor_gpu.evaluation.engine.execute import EvaluationInterrupted, execute
from valor_gpu.evaluation.engine.plan import Plan, make_plan
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.engine.stages import RowFailed
from valor_gpu.evaluation.engine.work import Work, rows_of
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.resume import OF_RESUME, rescore_run, resume_run
from valor_gpu.evaluation.rows.keys import RowKeys
from valor_gpu.judge.progress import Progress
from valor_gpu.judge.statistics import Prices
from valor_gpu.store import Store

__all__ = ["EvaluationInterrupted", "RowFailed", "evaluate", "rescore_run", "resume_run"]


def evaluate(
    *,
    evaluation_name: str | None = None,
    target: Any = None,
    data: Any = None,
    task_type: str | None = None,
    metrics_list: Sequence[Any] | None = None,
    model_config: Any = None,
    data_mapping: Mapping[str, str] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    tracking_uri: str | None = None,
    evaluators: Sequence[Any] | Mapping[str, Any] | None = None,
    judge: Any = None,
    embedding_config: Any = None,
    max_concurrency: int | None = None,
    rpm: float | None = None,
    tpm: float | None = None,
    timeout: float | None = None,
    cache: Any = None,
    resume: Any = None,
    repeats: int = 1,
    epochs: int = 1,
    thresholds: Mapping[str, float | str] | None = None,
    metric_params: Mapping[str, Mapping[str, Any]] | None = None,
    params_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None,
    baseline: Any = None,
    slice_by: str | Sequence[str] | None = None,
    key: str | None = None,
    limit: int | None = None,
    prices: Mapping[str, Any] | Prices | None = None,
    max_cost: float | None = None,
    store: Any = None,
    on_error: str = "record",
    seed: int = 0,
    tags: Mapping[str, Any] | None = None,
    keep_prompts: bool = True,
    progress: Callable[[Progress], object] | bool = False,
) -> Any:
    """Evaluates a data set: rows, perhaps a target that answers them, metrics; scored rows and a summary.

    Every row and score is in the store as soon as it is there, a judge's reply before the next one is asked for. So a
    run that is stopped or killed is resumed where it was. Whatever goes wrong with a row is the status of that row;
    whatever is wrong with the arguments is an error before the first row.

    Args:
        evaluation_name: name of the run; None for the time and a short word.
        target: answers the rows: a function, a coroutine function, an object with ``__call__``, ``"module:function"``,
            an address or mapping of an HTTP endpoint, a mapping with ``model`` and ``prompt``; see
            :func:`~valor_gpu.evaluation.targets.open_target`. None: the data have the answers.
        data: path of a file in csv, JSON lines or Parquet, a list of dicts, or a data frame; see
            :func:`~valor_gpu.evaluation.rows.data.open_data`.
        task_type: ``qa`` (questions and answers) or ``chat`` (conversations); None for what columns and mapping say.
        metrics_list: names of metrics, functions, evaluators, judged metrics, files of prompts, names of saved
            evaluators. It replaces the defaults, which are ``gpt_groundedness``, ``gpt_relevance`` and
            ``gpt_coherence`` (in chats ``gpt_retrieval_score``) as far as their columns are there. ``[]`` for none.
        model_config: the judge, as of :func:`~valor_gpu.evaluation.models.judge_from_config`. A key in it is held in
            memory alone.
        data_mapping: field to column or output, as of :func:`~valor_gpu.evaluation.rows.mapping.resolve_mapping`.
        output_path: folder for ``eval_results.jsonl``, ``metrics.json`` and ``run.json``; those of an earlier run are
            replaced. Several runs of a grid have a folder each in it: ``1``, ``2`` and so on.
        tracking_uri: of an MLflow server where the run is logged (extra ``mlflow``).
        evaluators: more metrics, or name to metric.
        judge: a :class:`~valor_gpu.judge.Judge` or a function from messages to text, in place of ``model_config``.
        embedding_config: model of the embeddings of ``ada_similarity``, or a function from texts to vectors.
        max_concurrency: most requests of the judge, and most calls of the target, at once; None: 8.
        rpm: most requests of the judge in a minute.
        tpm: most tokens of the judge in a minute.
        timeout: seconds of an answer or a reply; None: 600 of the target's, 120 of the judge's.
        cache: file of the judge's replies, shared by runs.
        resume: id or name of a run to go on with; of the other arguments those of
            :func:`~valor_gpu.evaluation.resume.resume_run` count. Those that decide rows and scores (``data_mapping``,
            ``key``, ``limit``, ``epochs``, ``repeats``, ``seed``, ``task_type``, ``thresholds``, ``metrics_list``) may
            be left out, and must be the run's where they are given.
        repeats: times that the judge is asked each question.
        epochs: times that the target answers each row.
        thresholds: metric to the value that passes, for severities the first level or number that is a defect.
        metric_params: metric to its parameters.
        params_grid: parameter to values, or a list of parameters: a run for each combination, whose parameters the
            target gets with every row.
        baseline: run to compare with: its id, name or result. ``preference`` compares with its answers.
        slice_by: columns by whose values every number is given, too.
        key: column of the row keys; None for ``key``, ``id``, else a hash of the row's inputs.
        limit: number of rows that are read.
        prices: of a million tokens: ``prompt``, ``completion``, perhaps ``cached``; and perhaps ``currency``, a text
            that is shown behind every cost.
        max_cost: the run stops, and can be resumed, when it has cost so much; replies under way are still paid.
        store: a :class:`~valor_gpu.store.Store` or its file; None for the user's own.
        on_error: ``raise`` ends the run at the first row without an answer or score.
        seed: of everything random.
        tags: name to value, for people.
        keep_prompts: whether the store keeps the prompts and requests behind scores and answers, which
            :func:`~valor_gpu.store.traces_of` returns. With False it keeps replies, tokens, seconds and retries alone.
        progress: called with a :class:`~valor_gpu.judge.Progress` as rows are done; True for a line on stderr.

    Returns:
        An :class:`~valor_gpu.evaluation.result.EvaluationResult`; with ``params_grid`` a list of them.

    Raises:
        InputError: an argument cannot be; nothing has run.
        RowFailed: a row failed, and ``on_error`` is ``raise``; its ``result`` has what came before.
        EvaluationInterrupted: Ctrl-C; its ``result`` has what came before.

    Example:
        >>> import tempfile
        >>> rows = [{"question": "Capital of France?", "ground_truth": "Paris"}]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = evaluate(
        ...         data=rows, target=lambda question: "It is Paris", metrics_list=["f1_score", "exact_match"],
        ...         store=folder + "/store.sqlite",
        ...     )
        ...     result.metrics_summary
        {'mean_f1_score': 0.5, 'mean_exact_match': 0.0}
    """
    settings = Settings(**locals())
    if resume is not None:
        return _resume(settings)
    settings.check()
    opened = open_store(store)
    grid = settings.grid()
    if grid is None:
        return _run(make_plan(settings, opened), opened, settings)
    group = randomness.token_hex(6)
    runs = settings.of_grid(grid, group)
    plans: list[Plan] = []
    for each in runs:
        plans.append(make_plan(each, opened, plans[0].source if plans else None))
    return [_run(plan, opened, each) for plan, each in zip(plans, runs)]


def _resume(settings: Settings) -> EvaluationResult:
    """Goes on with the run that is named, with those arguments that a resumed run takes."""
    named = settings.resume if isinstance(settings.resume, str) else getattr(settings.resume, "run_id", None)
    if not isinstance(named, str):
        raise InputTypeError(f"resume must be the id or name of a run but got {type(settings.resume).__name__}")
    plain = Settings()
    given = {name: value for name in OF_RESUME if (value := getattr(settings, name)) != getattr(plain, name)}
    metrics = [each for each in settings.metrics_list or () if not isinstance(each, str)]
    if metrics and settings.evaluators is None:
        given["evaluators"] = metrics
    store = open_store(settings.store)
    from valor_gpu.evaluation.engine.again import check_arguments  # here, since most runs are new

    check_arguments(RunConfig.from_dict(store.run(named).config), settings)
    return resume_run(store, named, **given)


def open_store(store: Any) -> Store:
    """The store that is given, or of a path; None: the user's own."""
    return store if isinstance(store, Store) else Store(store)


def _run(plan: Plan, store: Store, settings: Settings) -> EvaluationResult:
    config = plan.config
    tags = None if settings.tags is None else plan.services.secrets.mask_json(settings.tags, known=True)
    run = store.create_run(config.evaluation_name, config.to_dict(), tags, config.data["hash"])
    return execute(plan, store, run, _works(plan), settings.tracking_uri)


def _works(plan: Plan) -> Iterator[Work]:
    if plan.source is None:
        return iter(())
    keys = RowKeys(plan.source.columns, plan.mapping, plan.config.key)
    return rows_of(plan.source, keys, plan.config.limit, plan.config.epochs, plan.answers)
