"""The wizard: four pages that fill in a draft, and the submission that makes its runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.pages.charts import LEVELS
from valor_gpu.store import StoredDataset
from valor_gpu.web.model_names import model_of
from valor_gpu.web.processes import jobs
from valor_gpu.web.registry import Registry
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, post, see
from valor_gpu.web.rows.run_rows import find_run
from valor_gpu.web.security import looks_like_key
from valor_gpu.web.wizard.choices import SUGGESTED, Choice, choices
from valor_gpu.web.wizard.connection import connection_of
from valor_gpu.web.wizard.copies import draft_of_run
from valor_gpu.web.wizard.counting import counts_of
from valor_gpu.web.wizard.drafts import FIELDS, KIND, SCENARIOS, Draft, drafts, find_draft, save, saved_ago
from valor_gpu.web.wizard.estimates import estimate
from valor_gpu.web.wizard.form_settings import metric_fields, run_fields, taken
from valor_gpu.web.wizard.planning import Outlook, look, submit
from valor_gpu.web.wizard.proposals import mapping_lines, plain_text
from valor_gpu.web.wizard.same_run import as_python, as_yaml, host_of
from valor_gpu.web.wizard.uploads import MOST, keep_upload

STEPS = ("basics", "data", "metrics", "review")
PREVIEW = 10
_COLUMNS = 40
"""Columns of a preview."""
_BROKEN = 3
_OTHERS = 30  # fields of own evaluators that can be mapped
_FORM = 1 << 20
"""Bytes that a form has beside its file."""


def _registry(ask: Ask) -> Registry:
    found = ask.studio.registry
    return found if isinstance(found, Registry) else Registry()


def _datasets(ask: Ask) -> dict[str, StoredDataset]:
    return {each.hash: each for each in ask.studio.store.datasets.list() if each.source}


def _look(ask: Ask, draft: Draft) -> Outlook:
    return look(draft, _datasets(ask).get(draft.data), _registry(ask), ask.studio.store)


def _page(ask: Ask, step: str, draft: Draft, outlook: Outlook, **more: Any) -> Response:
    return page(
        ask,
        f"wizard_{step}.html",
        draft=draft,
        step=STEPS.index(step) + 1,
        steps=list(zip(STEPS, ("Basics", "Data and mapping", "Metrics and judge", "Review"))),
        saved=f"Draft saved {saved_ago(draft)}" if draft.saved else "",
        problems=outlook.problems,
        scenarios=SCENARIOS,
        registry=_registry(ask),
        **more,
    )


def new(ask: Ask) -> Response:
    """Begins a draft, or takes the one that nobody has filled in."""
    store = ask.studio.store
    empty = next((each for each in drafts(store) if not each.saved), Draft())
    variant = ask.query.get("variant", "")
    draft = save(
        store, empty, saved=0.0, target=ask.query.get("target", ""), variants=(variant,) if variant else (),
        data=ask.query.get("dataset", ""),
    )  # fmt: skip
    return see(f"/drafts/{draft.id}/basics")


def basics(ask: Ask, problem: str = "") -> Response:
    """The first page: name, scenario, and what is evaluated."""
    draft = find_draft(ask)
    outlook = _look(ask, draft)
    others = [each for each in drafts(ask.studio.store) if each.saved and each.id != draft.id][:20]
    problems = {name: text for name, text in outlook.problems.items() if name == "target"}
    outlook.problems = {**problems, **({"name": problem} if problem else {})}
    return _page(ask, "basics", draft, outlook, others=others)


def take_basics(ask: Ask) -> Response:
    """Keeps the first page."""
    draft = find_draft(ask)
    name = ask.field("name")[:200]
    if looks_like_key(name):
        return basics(ask, "This looks like a key of a service, and was not kept. Give another name.")
    registry, scenario = _registry(ask), ask.field("scenario")
    target = ask.field("target") if ask.field("source") == "target" else ""
    if target and target not in registry.targets:
        raise InputError(
            f"target must be a registered one of {', '.join(registry.targets) or '(none)'} but is {target!r:.100}"
        )
    sets = registry.targets[target]["variants"] if target else {}
    variants = tuple(each for each in ask.fields("variant") if each in sets)
    mapping = {} if scenario != draft.scenario else draft.mapping
    save(
        ask.studio.store, draft, name=name, scenario=scenario if scenario in SCENARIOS else "context", target=target,
        variants=variants, mapping=mapping, is_target_only=draft.is_target_only and bool(target),
    )  # fmt: skip
    return see(f"/drafts/{draft.id}/data")


def data(ask: Ask, refused: str = "") -> Response:
    """The second page: the data set, its first rows, and where fields come from."""
    draft = find_draft(ask)
    outlook, known = _look(ask, draft), _datasets(ask)
    dataset = known.get(draft.data)
    if not draft.data and not refused and "checked" not in ask.query:  # nobody has been asked yet
        outlook.problems.pop("data", None)
    rows, broken, n_broken = [], [], 0
    if outlook.source is not None and dataset is not None:
        rows = [row for row in islice(outlook.source, PREVIEW) if not row.error]
        counts = counts_of(ask.studio.store, outlook.source, outlook.fields or Fields({}, {}), None)
        broken = [error.replace(dataset.source, dataset.name) for error in counts.errors[:_BROKEN]]
        n_broken = counts.n_unreadable
    columns = () if outlook.source is None else outlook.source.columns
    previewed = columns[:_COLUMNS]
    shown = [[short(plain_text(row.values.get(name)), 200) for name in previewed] for row in rows]
    return _page(
        ask,
        "data",
        draft,
        outlook,
        refused=refused,
        datasets=list(known.values()),
        dataset=dataset,
        columns=columns,
        previewed=[short(name) for name in previewed],
        rows=shown,
        broken=broken,
        n_broken=n_broken,
        most=MOST >> 20,
        mapping=mapping_lines(draft, outlook, rows[0].values if rows else {}, _fields(ask, draft, outlook)),
        inputs=mapping_lines(draft, outlook, rows[0].values if rows else {}, outlook.inputs),
    )


def _fields(ask: Ask, draft: Draft, outlook: Outlook) -> list[str]:
    """Fields of the scenario, then those that the user's own evaluators read besides."""
    own = [each for each in choices(draft, outlook, _registry(ask), ask.studio.store) if each.family == "own"]
    others = {name for each in own for name in each.requires if field_of(name) is None}
    return [*FIELDS[draft.scenario], *sorted(others - {"seconds", "cost", *outlook.inputs})[:_OTHERS]]


def take_data(ask: Ask) -> Response:
    """Keeps the second page; an uploaded file becomes a data set."""
    draft, store, do = find_draft(ask), ask.studio.store, ask.field("do")
    outlook = _look(ask, draft)
    names = dict.fromkeys([*_fields(ask, draft, outlook), *outlook.inputs])
    mapping = {name: text for name in names if (text := ask.field(f"map-{name}"))}
    if do.startswith("use:"):
        name, _, column = do.removeprefix("use:").partition(":")
        mapping |= {name: f"${{data.{column}}}"} if name in names else {}
    changes: dict[str, Any] = {"mapping": mapping}
    if ask.field("dataset") in _datasets(ask):
        changes["data"] = ask.field("dataset")
    upload = ask.upload("file")
    if upload is not None:
        try:
            changes["data"] = keep_upload(store, ask.studio.uploads, upload.filename or "", upload.file).hash
        except InputError as error:
            save(store, draft, mapping=mapping)
            return data(ask, str(error))
    if changes.get("data", draft.data) != draft.data:
        changes["mapping"] = {}  # of other columns
    draft = save(store, draft, **changes)
    wrong = {"data", "mapping", "target"} & _look(ask, draft).problems.keys()
    if do == "next" and upload is None and not wrong:
        return see(f"/drafts/{draft.id}/metrics")
    return see(f"/drafts/{draft.id}/data", checked="1")


def metrics(ask: Ask, connection: Any = None, refused: str = "") -> Response:
    """The third page: metrics, judge, and what they will cost."""
    draft, registry = find_draft(ask), _registry(ask)
    outlook = _look(ask, draft)
    table = choices(draft, outlook, registry, ask.studio.store)
    expected = estimate(outlook, ask.studio.store)
    if not draft.metrics and connection is None and "checked" not in ask.query:
        outlook.problems.pop("metrics", None)
    families = [(title, *_lines(table, name, draft.scenario)) for name, title in _FAMILIES.items()]
    return _page(
        ask,
        "metrics",
        draft,
        outlook,
        families=[(title, first, groups) for title, first, groups in families if first or groups],
        expected=expected,
        levels=LEVELS,
        connection=connection,
        judges=[(name, model_of(said), host_of(said)) for name, said in registry.judges.items()],
        runs=outlook.runs,
        refused=refused,
        settings=[(name, found) for name in draft.metrics if (found := metric_fields(name, draft, registry))],
        settings_open=_has_settings(ask, draft, outlook) or bool(refused),
        run_fields=run_fields(draft),
        columns=() if outlook.source is None else outlook.source.columns,
        baselines=_baselines(ask, draft),
    )


def _has_settings(ask: Ask, draft: Draft, outlook: Outlook) -> bool:
    """Whether the settings of metrics are to be seen: some were typed, asked for, or cannot be."""
    wrong = any(name.startswith(("set-", "pass-")) for name in outlook.problems)
    return wrong or bool(draft.settings or draft.passes) or "settings" in ask.query


def _baselines(ask: Ask, draft: Draft) -> list[tuple[str, str]]:
    """Runs of answers that a new one can be compared with, the newest first: id and words."""
    found = [each for each in ask.studio.book.entries() if each.kind == "answers" and each.head.finished is not None]
    kept = [each for place, each in enumerate(found) if place < _BASELINES or each.head.id == draft.baseline]
    return [(each.head.id, f"{each.head.name or 'without a name'}, {each.data or 'data'}") for each in kept]


_BASELINES = 200
_FAMILIES = {"quality": "Performance and quality", "safety": "Risk and safety", "own": "Your own"}


def _lines(table: list[Choice], family: str, scenario: str) -> tuple[list[Choice], dict[str, list[Choice]]]:
    """The metrics of a family that come first, and the others by group; those that can be ticked before the rest."""
    order = {name: place for place, name in enumerate(SUGGESTED[scenario])}
    found: dict[str, list[Choice]] = {}
    for each in sorted(table, key=lambda each: (bool(each.off), order.get(each.name, len(order)))):
        if each.family == family:
            found.setdefault(each.group, []).append(each)
    return found.pop("", []), dict(sorted(found.items(), reverse=True))


def take_metrics(ask: Ask) -> Response:
    """Keeps the third page; a connection is tested where that was asked for."""
    draft, registry, do = find_draft(ask), _registry(ask), ask.field("do")
    outlook = _look(ask, draft)
    columns = () if outlook.source is None else outlook.source.columns
    changes, refused = taken(ask, draft, registry, columns)
    draft = replace(draft, **changes)
    possible = {each.name for each in choices(draft, outlook, registry, ask.studio.store) if not each.off}
    judge, level = ask.field("judge"), ask.field("level")
    draft = save(
        ask.studio.store,
        draft,
        **changes,
        metrics=tuple(dict.fromkeys(each for each in ask.fields("metric") if each in possible)),
        judge=judge if judge in registry.judges else "",
        level=level if level in LEVELS else "Medium",
        is_target_only=bool(draft.target) and ask.field("only") == "yes",
    )
    if do == "test" or refused:
        return metrics(ask, None if refused else connection_of(registry, draft.judge), refused)
    if do == "next" and not _look(ask, draft).problems:
        return see(f"/drafts/{draft.id}/review")
    return see(f"/drafts/{draft.id}/metrics?checked=1{'&settings=1#settings' if do == 'settings' else ''}")


def review(ask: Ask, refused: str = "") -> Response:
    """The last page: everything once more, as text too, and who will receive rows."""
    draft = find_draft(ask)
    outlook = _look(ask, draft)
    dataset = _datasets(ask).get(draft.data)
    said = outlook.arguments
    target = said.get("target")
    hosts = [host_of(said[name]) for name in ("model_config", "embedding_config") if name in said]
    if target is not None and (not isinstance(target, str) or target.startswith("http")):
        hosts.append(host_of(target if isinstance(target, dict) else {"url": target}))
    return _page(
        ask,
        "review",
        draft,
        outlook,
        refused=refused,
        dataset=dataset,
        config=None if outlook.plan is None else outlook.plan.config,
        notes=outlook.notes,
        expected=estimate(outlook, ask.studio.store),
        runs=outlook.runs,
        hosts=list(dict.fromkeys(hosts)),
        model=model_of(said.get("model_config") or {}),
        settings=_settings_lines(said, draft),
        texts=[("YAML", as_yaml(said)), ("Python", as_python({**said, "store": str(ask.studio.store.path)})),
               ("Command line", f"valor-gpu eval run evaluation.yaml --store {ask.studio.store.path}")],
    )  # fmt: skip


def _settings_lines(said: Mapping[str, Any], draft: Draft) -> list[tuple[str, str]]:
    """Settings other than the choice of metrics, each in words."""
    found = [(name, ", ".join(f"{key} {json.dumps(value)}" for key, value in each.items()))
             for name, each in (said.get("metric_params") or {}).items()]  # fmt: skip
    found += [(f"{name} passes at", f"{value:g}") for name, value in (said.get("thresholds") or {}).items()
              if not isinstance(value, str)]  # fmt: skip
    words = {"limit": "Rows at most", "repeats": "Times judged", "epochs": "Times answered", "max_cost": "Stop at cost",
             "baseline": "Baseline"}  # fmt: skip
    found += [(title, str(said[name])) for name, title in words.items() if name in said]
    found += [("Numbers by", ", ".join(said["slice_by"]))] if "slice_by" in said else []
    return found + ([("Embeddings", draft.embedding)] if "embedding_config" in said else [])


def take_submission(ask: Ask) -> Response:
    """Makes the runs and starts them; the draft goes."""
    draft, store = find_draft(ask), ask.studio.store
    if ask.field("prompts") == "asked":
        draft = save(store, draft, keep_prompts=ask.field("keep_prompts") == "yes")
    outlook = _look(ask, draft)
    if outlook.problems:
        return review(ask, "Nothing was started.")
    ids = submit(outlook.arguments, store, draft.variants, draft.id)
    for uid in ids:
        jobs.start(store, uid)
    return see(f"/runs/{ids[0]}" if len(ids) == 1 else "/runs")


def discard(ask: Ask) -> Response:
    """Takes a draft away."""
    ask.studio.store.views.delete(KIND, find_draft(ask).id)
    return see("/runs")


def duplicate(ask: Ask) -> Response:
    """Begins a draft that says what a run was made of."""
    store, run = ask.studio.store, find_run(ask)
    if "evaluators" not in run.config or "task_type" not in run.config:
        raise InputError(f"run {run.id} has no configuration that could be made again: it is a saved result")
    found = draft_of_run(run, _registry(ask))
    said = run.config.get("data") or {}
    if found.data and found.data not in _datasets(ask):
        rows = said.get("rows") or sum(run.counts().values())
        name = str(said.get("source", "")).replace("\\", "/").rsplit("/", 1)[-1]
        store.datasets.save(found.data, name, said.get("columns") or (), rows, str(said.get("source", "")))
    return see(f"/drafts/{save(store, found).id}/review")


def _pages(step: str, show: Callable[..., Response], take: Callable[[Ask], Response], most: int) -> list[Any]:
    path = f"/drafts/{{draft}}/{step}"
    return [get(path, show), post(path, take, most)]


ROUTES = [
    get("/new", new),
    *_pages("basics", basics, take_basics, _FORM),
    *_pages("data", data, take_data, MOST + _FORM),
    *_pages("metrics", metrics, take_metrics, _FORM),
    get("/drafts/{draft}/review", review),
    post("/drafts/{draft}/submit", take_submission),
    post("/drafts/{draft}/delete", discard),
    post("/runs/{run}/duplicate", duplicate),
]
