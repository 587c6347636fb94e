"""Runs that go on: the rest of a run that was stopped or killed, and new scores of stored answers. No torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import RunConfig, check_keys
from valor_gpu.evaluation.engine.execute import execute
from valor_gpu.evaluation.engine.metrics import RunEvaluator, resolve_evaluators
from valor_gpu.evaluation.engine.plan import (
    Plan,
    check_thresholds,
    chosen_metrics,
    fields_needed,
    fills_baseline,
    find_baseline,
    masked_description,
    total_of,
)
from valor_gpu.evaluation.engine.services import Services, check_judge, judge_identity, open_services, services_again
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.engine.work import OK, remaining, rows_of, stored_rows
from valor_gpu.evaluation.models import identity_of
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.rows.data import DataSource, open_data
from valor_gpu.evaluation.rows.fields import FIELDS
from valor_gpu.evaluation.rows.keys import RowKeys
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.evaluation.rows.mapping import resolve_mapping
from valor_gpu.evaluation.secrets import MASK
from valor_gpu.evaluation.targets.base import RESERVED
from valor_gpu.judge.parse import GRAMMAR
from valor_gpu.store import Run, Store

_TARGET_ONLY = "${target}"
_FIELDS = frozenset(FIELDS)
_ROWS_SEEN = 100  # rows that show what a target returns


_SERVICES = ("judge", "model_config", "embedding_config", "max_concurrency", "rpm", "tpm", "timeout", "cache", "prices",
             "max_cost", "tracking_uri", "keep_prompts", "progress")  # fmt: skip
OF_RESUME = ("data", "target", "evaluators", "on_error", *_SERVICES)
"""Arguments of :func:`resume_run` beside store and run."""
OF_RESCORE = ("evaluators", "metric_params", "thresholds", "baseline", *_SERVICES)
"""Arguments of :func:`rescore_run` beside store, run and metrics."""


def resume_run(store: Store | str | os.PathLike[str] | None, run_id: str, **given: Any) -> EvaluationResult:
    """Goes on with a run that was stopped, killed or failed, by its stored configuration.

    Rows that have an answer are not given to the target again, and scores that are there are not asked for again.
    Asked again is what failed for a reason that may be gone: rows without an answer, and scores without a value whose
    status is ``timeout``, ``rate_limited``, ``server_error``, ``connection_error``, ``quota`` or ``unauthorized``.
    Scores whose replies an older version of the grammar read are read again, from the cache or from their details;
    those that do not hold are made anew, with a warning.

    Args:
        store: the store, or its file; None for the user's own.
        run_id: id or name.
        given: arguments of :func:`~valor_gpu.evaluation.run.evaluate`. ``data`` again, where they were no file.
            ``target``, ``evaluators``, ``judge`` or ``model_config``, and ``embedding_config`` again, where they were
            objects of the process that began the run, or had a key by value. All of these must be the same, which
            hashes and versions show. Others in place of those of the run: ``max_concurrency``, ``rpm``, ``tpm``,
            ``timeout``, ``cache``, ``prices``, ``max_cost``, ``on_error``, ``tracking_uri``, ``keep_prompts``,
            ``progress``.

    Raises:
        InputError: no such run; data, target, judge or an evaluator that has changed, or that cannot be made again.
        LeaseError: a process that lives works on the run.
    """
    check_keys("resume", given, OF_RESUME)
    opened = store if isinstance(store, Store) else Store(store)
    run = opened.run(run_id)
    config = RunConfig.from_dict(run.config)
    settings = _settings(config, given)
    source = _same_data(run, config, settings)
    services = services_again(run.config, settings, any(each["needs_judge"] for each in config.evaluators))
    tools = same_evaluators(config.evaluators, settings.evaluators, config.task_type, services, opened)
    check_judge(tools, services.judge, settings)
    mapping = Fields.from_dict(config.data_mapping, config.data["columns"])
    config = replace(config, max_cost=settings.max_cost, prices=_prices(settings, services), on_error=settings.on_error,
                     keep_prompts=settings.keep_prompts, grammar=GRAMMAR)  # fmt: skip
    has_target = config.target is not None
    plan = replace(
        _plan(config, settings, services, tools, mapping, opened),
        source=source, total=total_of(config, source), answers=has_target,
    )  # fmt: skip
    if source is None:
        works = stored_rows(run, again=has_target)
    else:
        keys = RowKeys(config.data["columns"], mapping, config.key)
        works = remaining(rows_of(source, keys, config.limit, config.epochs, has_target), run)
    return execute(plan, opened, run, works, settings.tracking_uri)


def rescore_run(
    store: Store | str | os.PathLike[str] | None, run_id: str, metrics_list: Sequence[Any] | None = None, **given: Any
) -> EvaluationResult:
    """Adds scores of further evaluators to the stored rows of a run; the target is not called.

    Args:
        store: the store, or its file; None for the user's own.
        run_id: id or name of a run.
        metrics_list: as of :func:`~valor_gpu.evaluation.run.evaluate`. One that the run has already adds the scores
            that are missing; it must be the same, which its version shows.
        given: arguments of evaluate: ``evaluators``, ``metric_params`` and ``thresholds``. In place of those of the
            run ``judge`` or ``model_config``, ``embedding_config``, ``baseline``, ``max_concurrency``, ``rpm``,
            ``tpm``, ``timeout``, ``cache``, ``prices``, ``max_cost``, ``keep_prompts``; and ``tracking_uri``,
            ``progress``.

    Raises:
        InputError: no such run; no metric; what evaluate() would reject; a field that neither columns nor outputs give.
        LeaseError: a process that lives works on the run.
    """
    check_keys("rescore", given, OF_RESCORE)
    given["metrics_list"] = metrics_list
    opened = store if isinstance(store, Store) else Store(store)
    run = opened.run(run_id)
    config = RunConfig.from_dict(run.config)
    settings = _settings(config, given)
    wanted = chosen_metrics(settings.metrics_list, settings.evaluators)
    if not wanted:
        raise InputError("metrics_list or evaluators must name a metric to score by")
    without_target = {**run.config, "target": None, "judge": None}
    embed = services_again(without_target, replace(settings, judge=None, model_config=None), False).embed
    tools = resolve_evaluators(wanted, config.task_type, settings.metric_params, embed, opened)
    _check_versions(config.evaluators, tools)
    services = _services_of_rescore(config, settings, tools, embed)
    check_judge(tools, services.judge, settings)
    check_thresholds(settings.thresholds, tools)
    plan = _plan(config, settings, services, tools, Fields.from_dict(config.data_mapping), opened)
    extended = _extended(config, plan, settings)
    plan = replace(plan, mapping=_mapping_of_rescore(run, config, plan), config=extended, total=run.counts()["ok"])
    return execute(plan, opened, run, stored_rows(run), settings.tracking_uri)


def _settings(config: RunConfig, given: Mapping[str, Any]) -> Settings:
    """The arguments of the run, those that are given in their place."""
    limits = {name: config.limits.get(name) for name in ("max_concurrency", "rpm", "tpm", "timeout")}
    kept = {"max_cost": config.max_cost, "prices": config.prices, "on_error": config.on_error, "cache": config.cache,
            "baseline": config.baseline, "keep_prompts": config.keep_prompts}  # fmt: skip
    settings = Settings(
        **{**limits, **kept, **{name: value for name, value in given.items() if value is not None}},
        repeats=config.repeats,
        seed=config.seed,
        parameters=dict(config.parameters),
    )
    settings.check()
    return settings


def _prices(settings: Settings, services: Services) -> dict[str, Any] | None:
    prices = settings.token_prices(services.judge)
    return None if prices is None else prices.to_dict()


def _same_data(run: Run, config: RunConfig, settings: Settings) -> DataSource | None:
    """The data of the run; None where the store has all rows of data that were no file.

    Raises:
        InputError: they are not there, or have changed.
    """
    name = str(config.data["source"])
    if settings.data is None and not os.path.isfile(name):
        total = total_of(config)
        if total is not None and sum(run.counts().values()) == total:
            return None
        raise InputError(f"data must be given again, since those of the run were no file that is there: {name}")
    source = open_data(name if settings.data is None else settings.data)
    from valor_gpu.evaluation.engine.again import check_data  # here, since most runs are new

    check_data(run, config, source)
    return source


def same_evaluators(
    described: Iterable[Mapping[str, Any]], given: Any, task: str, services: Services, store: Store
) -> tuple[RunEvaluator, ...]:
    """The evaluators of a stored run, made again.

    Args:
        described: by the configuration of the run.
        given: those that were objects of another process.
        task: ``qa`` or ``chat``.
        services: of the run.
        store: with its library.

    Raises:
        InputError: one cannot be made again, or has changed.
    """
    described = list(described)
    names = [each["name"] for each in described]
    objects: Any = given or ()
    if isinstance(objects, (list, tuple)):  # a name is that of the run, with the parameters that it had
        objects = [each for each in objects if not isinstance(each, str) or each not in names]
    objects = {each.name: each for each in resolve_evaluators(objects, task, None, services.embed, store)}
    for name in objects:
        if name not in names:
            raise InputError(f"evaluators has {name!r}, which is none of the run{near_names(name, names)}")
    found = [objects.get(each["name"]) or _again(each, task, services, store) for each in described]
    _check_versions(described, found)
    return tuple(found)


def _again(described: Mapping[str, Any], task: str, services: Services, store: Store) -> RunEvaluator:
    name, origin, source = described["name"], described.get("origin"), described["source"]
    kept = {key: value for key, value in described["parameters"].items() if source != "custom" or key != "code"}
    params = {name: kept} if kept and source != "library" else None
    if source == "builtin":
        entry: Any = name
    elif origin is None:
        raise InputError(f"evaluators must have {name!r} again, since it was an object of the process of its run")
    elif MASK in kept.values():
        raise InputError(f"evaluators must have {name!r} again, since a parameter of it is a secret")
    else:
        entry = (name, origin) if source == "custom" else origin
    [found] = resolve_evaluators([entry], task, params, services.embed, store)
    return found


def _check_versions(described: Iterable[Mapping[str, Any]], found: Iterable[RunEvaluator]) -> None:
    versions = {each["name"]: each["version"] for each in described}
    changed = [each for each in found if versions.get(each.name, each.version) != each.version]
    if changed:
        shown = ", ".join(f"{each.name!r} (was {versions[each.name]}, is {each.version})" for each in changed)
        raise InputError(
            f"evaluators must be those that the run was scored by, but these have changed: {shown}; start a new run, or"
            " rescore this one by what has changed under another name"
        )


def _plan(
    config: RunConfig,
    settings: Settings,
    services: Services,
    tools: tuple[RunEvaluator, ...],
    mapping: Fields,
    store: Store,
) -> Plan:
    baseline = find_baseline(settings.baseline, store)
    fills = fills_baseline(tools, baseline, config.data.get("columns", ()))
    prices = settings.token_prices(services.judge)
    return Plan(
        config, services, tools, mapping, settings.limits(), prices, settings.cache, None, baseline, fills, None,
        settings.progress,
    )  # fmt: skip


def _services_of_rescore(config: RunConfig, settings: Settings, tools: Sequence[RunEvaluator], embed: Any) -> Services:
    """The judge that is given, else that of the run where one is needed; no target.

    Raises:
        InputError: another judge than the run's for a metric that the run has.
    """
    described = {**config.to_dict(), "target": None, "embedding": None}
    given = open_services(replace(settings, embedding_config=None))
    judged = [each.name for each in tools if each.judged]
    old = [each["name"] for each in config.evaluators if each["name"] in judged]
    if given.judge is not None and not old:
        described["judge"] = judge_identity(given.judge)
    found = services_again(described, settings, bool(judged))
    return replace(found, embed=embed)


def _mapping_of_rescore(run: Run, config: RunConfig, plan: Plan) -> Fields:
    """The run's mapping, with what the new evaluators need besides."""
    has_target = config.target is not None
    returned = {name: None for row in run.rows(limit=_ROWS_SEEN, status=OK) for name in row.outputs}
    outputs = [name for name in returned if name not in RESERVED] if has_target else None
    needed = fields_needed(plan.evaluators, has_target, plan.fills_baseline)
    wanted = {field for fields in needed.values() for field in fields} | _FIELDS
    known = {field: text for field, text in config.data_mapping.items() if text != _TARGET_ONLY and field in wanted}
    found = resolve_mapping(known, config.data["columns"], outputs, needed, config.task_type)
    stored = Fields.from_dict(config.data_mapping)
    return Fields({**found.sources, **stored.sources}, found.key_columns, found.warnings)


def _extended(config: RunConfig, plan: Plan, settings: Settings) -> RunConfig:
    """The configuration with what was added."""
    names = {each["name"] for each in config.evaluators}
    new = [masked_description(each, plan.services.secrets) for each in plan.evaluators if each.name not in names]
    added = ", ".join(each["name"] for each in new)
    judge = judge_identity(plan.services.judge) if plan.judged else None
    if config.judge is not None and judge is not None and judge != config.judge:
        added += f", judged by {json.dumps(judge)}"
    judged = {each["name"] for each in config.evaluators if each["needs_judge"]}
    return replace(
        config,
        grammar=GRAMMAR if judged <= {each.name for each in plan.judged} else config.grammar,
        evaluators=(*config.evaluators, *new),
        thresholds={**config.thresholds, **(settings.thresholds or {})},
        judge=config.judge or judge,
        embedding=config.embedding or identity_of(plan.services.embed),
        prices=_prices(settings, plan.services),
        keep_prompts=settings.keep_prompts,
        notes=(*config.notes, f"scored later by {added}") if added else config.notes,
    )
