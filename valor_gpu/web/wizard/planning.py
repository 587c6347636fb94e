"""What a draft would do, by the planning of evaluate() itself: its arguments, what is wrong with them, its runs."""

from __future__ import annotations

import os
import secrets
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from valor_gpu.errors import InputError, ValorError
from valor_gpu.evaluation.engine.metrics import resolve_evaluators
from valor_gpu.evaluation.engine.plan import Plan, make_plan
from valor_gpu.evaluation.engine.services import open_services
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.rows.columns import root_of
from valor_gpu.evaluation.rows.data import DataSource
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.evaluation.rows.mapping import resolve_mapping
from valor_gpu.store import Store, StoredDataset
from valor_gpu.store.stores import NewRun
from valor_gpu.web.registry import Registry
from valor_gpu.web.wizard.counting import opened_data, with_all_columns
from valor_gpu.web.wizard.drafts import FIELDS, KIND, Draft
from valor_gpu.web.wizard.form_settings import read_settings

_QUIET = threading.Lock()  # filters of warnings are the whole process's


def arguments(
    draft: Draft, dataset: StoredDataset | None, registry: Registry, problems: dict[str, str] | None = None
) -> dict[str, Any]:
    """Keyword arguments of :func:`valor_gpu.evaluate` that a draft means, as JSON values.

    Args:
        draft: what was said.
        dataset: that it reads.
        registry: what it names.
        problems: gets what is wrong with the texts of its settings, by fields of forms.
    """
    judge = {} if draft.is_target_only else dict(registry.judges.get(draft.judge, {}))
    prices = judge.pop("prices", None)
    own = {name: registry.evaluators[name] for name in draft.metrics if name in registry.evaluators}
    chosen = [] if draft.is_target_only else [name for name in draft.metrics if name not in own]
    judged = [name for name in chosen if _needs_judge(name)]
    target = registry.targets.get(draft.target)
    variants = (
        [] if target is None else [target["variants"][each] for each in draft.variants if each in target["variants"]]
    )
    settings = read_settings(draft, registry)
    if problems is not None:
        problems.update(settings.problems)
    found = {
        "evaluation_name": draft.name or None,
        "target": None if target is None else target["use"],
        "data": None if dataset is None else dataset.source,
        "task_type": draft.task,
        "data_mapping": dict(draft.mapping) or None,
        "metrics_list": chosen,
        "evaluators": (own or None) if not draft.is_target_only else None,
        "metric_params": settings.params or None,
        "model_config": judge if judge and judged else None,
        "prices": prices if judged else None,
        "thresholds": settings.thresholds or None,
        "params_grid": variants or None,
        "keep_prompts": None if draft.keep_prompts else False,
        **settings.options,
    }
    return {name: value for name, value in found.items() if value is not None}


def _needs_judge(name: str) -> bool:
    """Whether a metric asks a judge; those of the library may."""
    return name not in EVALUATORS or "judge" in EVALUATORS[name].needs


@dataclass
class Outlook:
    """What a draft would do.

    Attributes:
        arguments: of :func:`valor_gpu.evaluate`.
        problems: part of the form (``data``, ``mapping``, ``metrics``, ``judge``, ``target``, ``name``) to what is
            wrong with it.
        source: the data, if they can be opened.
        fields: where fields come from, if the mapping can be.
        outputs: of the target; None without one.
        inputs: parameters of the target that are no fields.
        tells_cost: whether answers of the target may have a cost.
        optional: those of them that have a default, or a value by the variants.
        plan: of the first run; None while there are problems.
        runs: how many there would be.
        notes: what the plan says beside.
    """

    arguments: dict[str, Any]
    problems: dict[str, str] = field(default_factory=dict)
    source: DataSource | None = None
    fields: Fields | None = None
    outputs: tuple[str, ...] | None = None
    inputs: tuple[str, ...] = ()
    tells_cost: bool = True
    optional: frozenset[str] = frozenset()
    plan: Plan | None = None
    runs: int = 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan says beside."""
        return () if self.plan is None else self.plan.config.notes


def look(draft: Draft, dataset: StoredDataset | None, registry: Registry, store: Store) -> Outlook:
    """Checks a draft by the code that evaluate() checks its arguments with."""
    wrong: dict[str, str] = {}
    found = Outlook(arguments(draft, dataset, registry, wrong), wrong)
    if draft.target and draft.target not in registry.targets:
        found.problems["target"] = f"There is no registered target {draft.target}. Choose another one."
    if dataset is None or not os.path.isfile(dataset.source):
        found.problems["data"] = (
            "Choose a data set, or upload one." if dataset is None else "The file of the data set is gone."
        )
        return found
    _attempt(found, "data", lambda: setattr(found, "source", _all_columns(store, dataset, draft)))
    if found.source is not None and found.source.hash != dataset.hash:
        found.problems["data"] = (
            f"The file of {dataset.name} has changed since it was listed, by the hash of its content. Upload it again."
        )
    _attempt(found, "target", lambda: _open_target(found))
    if found.source is not None and "target" not in found.problems:
        columns, task = found.source.columns, draft.task
        others = [name for name in draft.mapping if name not in FIELDS[draft.scenario]]
        _attempt(
            found,
            "mapping",
            lambda: setattr(found, "fields", resolve_mapping(draft.mapping, columns, found.outputs, others, task)),
        )
    for name in () if draft.is_target_only else draft.metrics:
        if name in found.arguments.get("metric_params", {}) and name in EVALUATORS:
            _attempt(found, f"set-{name}", partial(_make, name, found.arguments, store))
    if not draft.metrics and not draft.is_target_only:
        found.problems["metrics"] = "Tick at least one metric."
    if draft.is_target_only and not draft.target:
        found.problems["metrics"] = "Only a target can be run without metrics; choose one in the first step."
    _attempt(found, "metrics", lambda: _narrow(found, draft, store))
    if not found.problems:
        _attempt(found, "", lambda: _plan(found, store))
    return found


def _all_columns(store: Store, dataset: StoredDataset, draft: Draft) -> DataSource:
    """The source with what begins behind its first rows, where the data set has such columns or a path may be there."""
    source = opened_data(dataset.source)
    known = {*source.columns, *(source.columns.paths or ())}
    named = [text[len("${data.") : -1] for text in draft.mapping.values() if text.startswith("${data.")]
    lacking = {*dataset.columns, *(name for name in named if root_of(name, source.columns) is not None)} - known
    return with_all_columns(store, source, dataset) if lacking else source


def _make(name: str, said: Mapping[str, Any], store: Store) -> None:
    """Makes a metric by its parameters, so that what is wrong with them is told beside them."""
    resolve_evaluators([name], said["task_type"], {name: said["metric_params"][name]}, None, store)


def _open_target(found: Outlook) -> None:
    said = found.arguments
    services = open_services(Settings(target=said.get("target"), prices=said.get("prices")))
    if services.target is not None:
        known = services.target.requires | (services.target.accepts or frozenset())
        found.tells_cost = services.target.tells_cost
        found.inputs = tuple(sorted(name for name in known if field_of(name) is None))
        sets = [set(each) for each in found.arguments.get("params_grid") or ()]
        found.optional = frozenset(known - services.target.requires).union(set.intersection(*sets) if sets else ())
    found.outputs = None if services.outputs is None else tuple(services.outputs)


def _narrow(found: Outlook, draft: Draft, store: Store) -> None:
    """Leaves out of the mapping what no chosen evaluator and no target reads, which evaluate() would reject."""
    others = [name for name in draft.mapping if name not in FIELDS[draft.scenario]]
    if not others:
        return
    own = [name for name in found.arguments["metrics_list"] if name not in EVALUATORS]
    made = resolve_evaluators([*own, *(found.arguments.get("evaluators") or {}).items()], draft.task, None, None, store)
    read = {*found.inputs, *(name for each in made for name in each.requires)}
    kept = {name: text for name, text in draft.mapping.items() if name not in others or name in read}
    found.arguments["data_mapping"] = kept


def _plan(found: Outlook, store: Store) -> None:
    plans = plans_of(found.arguments, store, found.source)
    found.plan, found.runs = plans[0][1], len(plans)


def plans_of(said: Mapping[str, Any], store: Store, source: DataSource | None = None) -> list[tuple[Settings, Plan]]:
    """The plan of every run that arguments make.

    Args:
        said: the arguments.
        store: of evaluators and of the baseline.
        source: the data, where they are opened already.

    Raises:
        InputError: what evaluate() would reject.
    """
    settings = Settings(**said)
    settings.check()
    grid = settings.grid()
    group = secrets.token_hex(6)
    runs = [settings] if grid is None else [
        replace(settings, params_grid=None, parameters=each, group=group) for each in grid
    ]  # fmt: skip
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are the notes of the plan
        found: list[tuple[Settings, Plan]] = []
        for each in runs:
            found.append((each, make_plan(each, store, found[0][1].source if found else source)))
        return found


_PARTS = {
    "data_mapping": "mapping", "the target": "target", "target": "target", "model_config": "judge", "judge": "judge",
    "metric": "metrics", "evaluator": "metrics", "threshold": "metrics", "data": "data", "prices": "judge",
    "evaluation_name": "name", "slice_by": "run-slice", "baseline": "run-baseline", "no run": "run-baseline",
    "max_cost": "run-max_cost",
}  # fmt: skip


def _attempt(found: Outlook, part: str, do: Any) -> None:
    """Does something; what is wrong becomes a problem of its part of the form."""
    try:
        do()
    except (ValorError, ImportError) as error:
        text = str(error)
        told = part or next((name for start, name in _PARTS.items() if text.startswith(start)), "metrics")
        found.problems.setdefault(told, text)


def submit(
    said: Mapping[str, Any], store: Store, names: tuple[str, ...], draft: str, source: DataSource | None = None
) -> list[str]:
    """Makes the runs of arguments in the store, as evaluate() does, in place of their draft, and returns their ids.

    Args:
        said: the arguments.
        store: gets the runs.
        names: of the variants; each is a tag of its run.
        source: the data, where they are opened already.
        draft: id of the draft, which goes as the runs come; a second click finds none, and makes no runs.

    Raises:
        InputError: what evaluate() would reject; nothing is made.
    """
    plans = plans_of(said, store, source)
    if names and len(names) != len(plans):
        raise InputError(f"variants must be one per run but there are {len(names)} of {len(plans)}")
    new = []
    for place, (_, plan) in enumerate(plans):
        tags = {"variant": names[place]} if names else {}
        config = plan.config
        new.append(NewRun(config.evaluation_name, config.to_dict(), tags, config.data["hash"]))
    return [run.id for run in store.create_runs(new, (KIND, draft))]
