"""What a draft would do, by the planning of evaluate() itself: arguments, problems, calls and their cost."""

from __future__ import annotations

import json
import os
import secrets
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from valor_gpu.errors import InputError, ValorError
from valor_gpu.evaluation.engine.forecast import Forecast, forecast
from valor_gpu.evaluation.engine.metrics import RunEvaluator, resolve_evaluators
from valor_gpu.evaluation.engine.plan import Plan, make_plan
from valor_gpu.evaluation.engine.services import open_services
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.rows.data import DataSource, open_data
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.evaluation.rows.mapping import resolve_mapping
from valor_gpu.judge.protocol import Usage
from valor_gpu.store import Store, StoredDataset
from valor_gpu.web.drafts import Draft
from valor_gpu.web.prompts import prompts_of
from valor_gpu.web.registry import Registry

CHARACTERS = 4.0
"""Characters of a token, about: of English in the vocabularies of current models."""
REPLY = 80
"""Tokens of a judge's reply, about: one or two sentences of a reason, then a number."""
_SAMPLE = 200
_MEASURED = frozenset({"seconds", "cost"})
_QUIET = threading.Lock()  # filters of warnings are the whole process's


def arguments(draft: Draft, dataset: StoredDataset | None, registry: Registry) -> dict[str, Any]:
    """Keyword arguments of :func:`valor_gpu.evaluate` that a draft means, as JSON values."""
    judge = {} if draft.is_target_only else dict(registry.judges.get(draft.judge, {}))
    prices = judge.pop("prices", None)
    own = {name: registry.evaluators[name] for name in draft.metrics if name in registry.evaluators}
    chosen = [] if draft.is_target_only else [name for name in draft.metrics if name not in own]
    judged = [name for name in chosen if _needs_judge(name)]
    target = registry.targets.get(draft.target)
    variants = (
        [] if target is None else [target["variants"][each] for each in draft.variants if each in target["variants"]]
    )
    safety = [name for name in chosen if name in EVALUATORS and EVALUATORS[name].kind == "safety"]
    found = {
        "evaluation_name": draft.name or None,
        "target": None if target is None else target["use"],
        "data": None if dataset is None else dataset.source,
        "task_type": draft.task,
        "data_mapping": dict(draft.mapping) or None,
        "metrics_list": chosen,
        "evaluators": (own or None) if not draft.is_target_only else None,
        "model_config": judge if judge and judged else None,
        "prices": prices if judged else None,
        "thresholds": dict.fromkeys(safety, draft.level) or None,
        "params_grid": variants or None,
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
        plan: of the first run; None while there are problems.
        runs: how many there would be.
        notes: what the plan says beside.
    """

    arguments: dict[str, Any]
    problems: dict[str, str] = field(default_factory=dict)
    source: DataSource | None = None
    fields: Fields | None = None
    outputs: tuple[str, ...] | None = None
    plan: Plan | None = None
    runs: int = 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan says beside."""
        return () if self.plan is None else self.plan.config.notes


def look(draft: Draft, dataset: StoredDataset | None, registry: Registry, store: Store) -> Outlook:
    """Checks a draft by the code that evaluate() checks its arguments with."""
    found = Outlook(arguments(draft, dataset, registry))
    if draft.target and draft.target not in registry.targets:
        found.problems["target"] = f"There is no registered target {draft.target}. Choose another one."
    if dataset is None or not os.path.isfile(dataset.source):
        found.problems["data"] = (
            "Choose a data set, or upload one." if dataset is None else "The file of the data set is gone."
        )
        return found
    _attempt(found, "data", lambda: setattr(found, "source", open_data(dataset.source)))
    _attempt(found, "target", lambda: setattr(found, "outputs", _outputs(found.arguments)))
    if found.source is not None and "target" not in found.problems:
        columns, task = found.source.columns, draft.task
        _attempt(
            found,
            "mapping",
            lambda: setattr(found, "fields", resolve_mapping(draft.mapping, columns, found.outputs, (), task)),
        )
    if not draft.metrics and not draft.is_target_only:
        found.problems["metrics"] = "Tick at least one metric."
    if draft.is_target_only and not draft.target:
        found.problems["metrics"] = "Only a target can be run without metrics; choose one in the first step."
    if not found.problems:
        _attempt(found, "", lambda: _plan(found, store))
    return found


def _outputs(said: Mapping[str, Any]) -> tuple[str, ...] | None:
    services = open_services(Settings(target=said.get("target")))
    return None if services.outputs is None else tuple(services.outputs)


def _plan(found: Outlook, store: Store) -> None:
    plans = plans_of(found.arguments, store)
    found.plan, found.runs = plans[0][1], len(plans)


def plans_of(said: Mapping[str, Any], store: Store) -> list[tuple[Settings, Plan]]:
    """The plan of every run that arguments make.

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
        return [(each, make_plan(each, store)) for each in runs]


_PARTS = {
    "data_mapping": "mapping", "the target": "target", "target": "target", "model_config": "judge", "judge": "judge",
    "metric": "metrics", "evaluator": "metrics", "threshold": "metrics", "data": "data", "prices": "judge",
    "evaluation_name": "name",
}  # fmt: skip


def _attempt(found: Outlook, part: str, do: Any) -> None:
    """Does something; what is wrong becomes a problem of its part of the form."""
    try:
        do()
    except (ValorError, ImportError) as error:
        text = str(error)
        told = part or next((name for start, name in _PARTS.items() if text.startswith(start)), "metrics")
        found.problems.setdefault(told, text)


@dataclass(frozen=True)
class Choice:
    """A metric of the wizard's table.

    Attributes:
        name: of the metric.
        family: ``quality``, ``safety`` or ``own``.
        about: what it measures.
        requires: fields.
        scale: in words.
        off: why it cannot be ticked; empty if it can.
        made: the evaluator; None where it cannot be made.
    """

    name: str
    family: str
    about: str
    requires: tuple[str, ...]
    scale: str
    off: str
    made: RunEvaluator | None


def choices(draft: Draft, outlook: Outlook, registry: Registry, store: Store) -> list[Choice]:
    """All metrics, those that the mapped columns do not allow with why."""
    own = [(each.name, "own", f"{each.name}@{each.number}", each.note) for each in store.evaluators.list()]
    code = [(name, "own", (name, text), text) for name, text in registry.evaluators.items()]
    table = [
        (name, "safety" if info.kind == "safety" else "quality", name, info.summary)
        for name, info in EVALUATORS.items()
    ]
    return [_choice(draft, outlook, store, *each) for each in (*table, *own, *code)]


def _choice(draft: Draft, outlook: Outlook, store: Store, name: str, family: str, entry: Any, about: str) -> Choice:
    info = EVALUATORS.get(name)
    if info is not None and draft.task not in info.tasks:
        return Choice(
            name, family, about, tuple(sorted(info.requires)), "", "Scores questions and answers alone.", None
        )
    if info is not None and info.needs & {"embed", "wordnet"}:
        what = "a model of embeddings" if "embed" in info.needs else "a WordNet database"
        return Choice(
            name, family, about, tuple(sorted(info.requires)), "", f"Needs {what}, which code alone can give.", None
        )
    try:
        [made] = resolve_evaluators([entry], draft.task, None, None, store)
    except (ValorError, ImportError) as error:
        return Choice(name, family, about, (), "", str(error), None)
    off = ""
    given = _MEASURED if draft.target else frozenset()
    if outlook.fields is None:
        off = "Choose data first."
    elif not draft.target and made.requires & _MEASURED - set(outlook.fields.sources):
        off = "Needs a target, whose answers are measured."
    elif lacking := outlook.fields.missing(made.requires - given):
        off = f"{', '.join(lacking)} is not mapped." if len(lacking) == 1 else f"{', '.join(lacking)} are not mapped."
    described = made.describe()
    low, high = described["low"], described["high"]
    scale = "" if low is None else f"{low:g} to {'no bound' if high is None else format(high, 'g')}"
    return Choice(name, family, about, tuple(sorted(made.requires)), scale, off, made)


@dataclass(frozen=True)
class Estimate:
    """What a run would ask, before anything is spent.

    Attributes:
        rows: of the data; ``missing`` of them, by metric, lack a field.
        calls: of the judge, by metric.
        target_calls: of the target.
        tokens_in: of all calls of the judge, about.
        tokens_out: likewise of its replies.
        cost: None without prices.
        unreadable: rows that cannot be read.
    """

    rows: int
    calls: Mapping[str, int]
    target_calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    missing: Mapping[str, int]
    unreadable: int

    @property
    def all_calls(self) -> int:
        """Calls of the judge."""
        return sum(self.calls.values())


def estimate(outlook: Outlook) -> Estimate | None:
    """Counts the calls of a plan by reading its data once; None while there is no plan."""
    plan = outlook.plan
    if plan is None or plan.source is None:
        return None
    config = plan.config
    given = _MEASURED if plan.has_target else frozenset()
    expected = forecast(
        plan.source, plan.mapping, plan.evaluators, config.limit, config.epochs, config.repeats, plan.has_target, given
    )
    tokens = _tokens(plan, expected) * outlook.runs
    calls = {name: n * outlook.runs for name, n in expected.judge.items()}
    replies = REPLY * sum(calls.values())
    cost = None if plan.prices is None else plan.prices.cost(Usage(prompt=tokens, completion=replies))
    return Estimate(
        expected.rows, calls, expected.target * outlook.runs, tokens, replies, cost if calls else 0.0, expected.missing,
        len(expected.unreadable),
    )  # fmt: skip


def _tokens(plan: Plan, expected: Forecast) -> int:
    """Tokens of all prompts, about: of the prompt itself and of the fields of the first rows that can be read."""
    assert plan.source is not None
    rows = [plan.mapping.values(row.values) for row in islice(plan.source, _SAMPLE) if not row.error]
    total = 0.0
    for each in plan.judged:
        info = EVALUATORS.get(each.name)
        prompts = [
            system + text for task, system, text in (prompts_of(info) if info else ()) if task == plan.config.task_type
        ]
        fixed = len(prompts[0]) if prompts else 2000
        texts = [sum(len(str(row.get(name) or "")) for name in each.requires) for row in rows]
        mean = sum(texts) / max(len(texts), 1)
        total += expected.judge[each.name] * (fixed + mean) / CHARACTERS
    return round(total)


def host_of(said: Mapping[str, Any]) -> str:
    """The host that gets rows, of the configuration of a judge or of a target."""
    address = str(said.get("base_url") or said.get("azure_endpoint") or said.get("api_base") or said.get("url") or "")
    return urlsplit(address).netloc.rpartition("@")[2] if address else "api.openai.com"


def as_yaml(said: Mapping[str, Any]) -> str:
    """Arguments as a configuration file: JSON values, which YAML has too, one name a line."""
    lines = []
    for name, value in said.items():
        if isinstance(value, Mapping) and name in ("data_mapping", "thresholds", "model_config"):
            lines += [f"{name}:", *(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())]
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def as_python(said: Mapping[str, Any]) -> str:
    """Arguments as a program."""
    return "\n".join(
        [
            "from valor_gpu import evaluate",
            "",
            "result = evaluate(",
            *(f"    {name}={value!r}," for name, value in said.items()),
            ")",
        ]
    )


def submit(said: Mapping[str, Any], store: Store, names: tuple[str, ...]) -> list[str]:
    """Makes the runs of arguments in the store, as evaluate() does, and returns their ids.

    Args:
        said: the arguments.
        store: gets the runs.
        names: of the variants; each is a tag of its run.

    Raises:
        InputError: what evaluate() would reject; nothing is made.
    """
    plans = plans_of(said, store)
    if names and len(names) != len(plans):
        raise InputError(f"variants must be one a run but there are {len(names)} of {len(plans)}")
    found = []
    for place, (_, plan) in enumerate(plans):
        tags = {"variant": names[place]} if names else {}
        config = plan.config
        found.append(store.create_run(config.evaluation_name, config.to_dict(), tags, config.data["hash"]).id)
    return found
