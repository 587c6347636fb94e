"""The wizard: four pages that fill in a draft, and the submission that makes its runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.engine.forecast import RowCounts
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.rows.data import SourceRow
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.pages.charts import LEVELS
from valor_gpu.store import StoredDataset
from valor_gpu.web.model_names import model_of
from valor_gpu.web.processes import jobs
from valor_gpu.web.processes.readings import Reading
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
from valor_gpu.web.wizard.estimates import Estimate, estimate
from valor_gpu.web.wizard.following import follow
from valor_gpu.web.wizard.form_settings import metric_fields, run_fields, taken
from valor_gpu.web.wizard.planning import Outlook, look, submit
from valor_gpu.web.wizard.proposals import mapping_lines, plain_text
from valor_gpu.web.wizard.same_run import as_python, as_yaml, host_of, settings_lines
from valor_gpu.web.wizard.uploads import MOST, forget_upload, keep_upload, upload_of

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
    """The second page: the data set, its first rows, and where fields come from; or how far an upload is read."""
    draft = find_draft(ask)
    reading, uploaded, failed = upload_of(ask.studio, draft)
    if uploaded and not failed:
        return _reading_page(ask, draft, reading, uploaded)
    draft = find_draft(ask)  # which may have got its data set just now
    outlook, known = _look(ask, draft), _datasets(ask)
    dataset = known.get(draft.data)
    if not draft.data and not (refused or failed) and "checked" not in ask.query:  # nobody has been asked yet
        outlook.problems.pop("data", None)
    first = next((row.values for row in _first(outlook)), {})
    columns = () if outlook.source is None else outlook.source.columns
    previewed = columns[:_COLUMNS]
    return _page(
        ask,
        "data",
        draft,
        outlook,
        refused=refused or failed,
        datasets=list(known.values()),
        dataset=dataset,
        columns=columns,
        previewed=[short(name) for name in previewed],
        rows=[[short(plain_text(row.values.get(name)), 200) for name in previewed] for row in _first(outlook)],
        **_broken(ask, outlook, dataset),
        most=MOST >> 20,
        mapping=mapping_lines(draft, outlook, first, _fields(ask, draft, outlook)),
        inputs=mapping_lines(draft, outlook, first, outlook.inputs),
    )


def _first(outlook: Outlook) -> list[SourceRow]:
    return [row for row in islice(outlook.source or (), PREVIEW) if not row.error]


def _broken(ask: Ask, outlook: Outlook, dataset: StoredDataset | None) -> dict[str, Any]:
    """What the page says of rows that cannot be read, or of the counting of them."""
    found: RowCounts | Reading = RowCounts()
    if outlook.source is not None and dataset is not None:
        found = counts_of(ask.studio, outlook.source, outlook.fields or Fields({}, {}), None, dataset)
    if isinstance(found, Reading):
        return {"broken": [], "n_broken": 0, **follow(ask, found)}
    broken = [error.replace(dataset.source, dataset.name) if dataset else error for error in found.errors[:_BROKEN]]
    return {"broken": broken, "n_broken": found.n_unreadable, **follow(ask, None)}


def _reading_page(ask: Ask, draft: Draft, reading: Reading | None, name: str) -> Response:
    """The second page while an uploaded file is read; a reading that another server makes says nothing of itself."""
    return _page(ask, "data", draft, Outlook({}), uploaded=name, **follow(ask, reading, True))


def _fields(ask: Ask, draft: Draft, outlook: Outlook) -> list[str]:
    """Fields of the scenario, then those that the user's own evaluators read besides."""
    own = [each for each in choices(draft, outlook, _registry(ask), ask.studio.store) if each.family == "own"]
    others = {name for each in own for name in each.requires if field_of(name) is None}
    return [*FIELDS[draft.scenario], *sorted(others - {"seconds", "cost", *outlook.inputs})[:_OTHERS]]


def take_data(ask: Ask) -> Response:
    """Keeps the second page; an uploaded file becomes a data set."""
    draft, store, do = find_draft(ask), ask.studio.store, ask.field("do")
    if do == "cancel-upload" or (draft.upload and ask.upload("file") is None and _is_failed(ask, draft)):
        forget_upload(ask.studio, draft.upload)
        draft = save(store, draft, upload="")
        if do == "cancel-upload":
            return see(f"/drafts/{draft.id}/data")
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
        draft = save(store, draft, mapping=mapping)
        try:
            keep_upload(ask.studio, draft, upload.filename or "", upload.file)
        except InputError as error:
            return data(ask, str(error))
        return see(f"/drafts/{draft.id}/data", checked="1")
    if changes.get("data", draft.data) != draft.data:
        changes["mapping"] = {}  # of other columns
    draft = save(store, draft, **changes)
    wrong = {"data", "mapping", "target"} & _look(ask, draft).problems.keys()
    if do == "next" and not wrong:
        return see(f"/drafts/{draft.id}/metrics")
    return see(f"/drafts/{draft.id}/data", checked="1")


def _is_failed(ask: Ask, draft: Draft) -> bool:
    return bool(upload_of(ask.studio, draft)[2])


def metrics(ask: Ask, connection: Any = None, refused: str = "") -> Response:
    """The third page: metrics, judge, and what they will cost."""
    draft, registry = find_draft(ask), _registry(ask)
    outlook = _look(ask, draft)
    table = choices(draft, outlook, registry, ask.studio.store)
    expected, following = _expected(ask, draft, outlook)
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
        **following,
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


def _expected(ask: Ask, draft: Draft, outlook: Outlook) -> tuple[Estimate | None, dict[str, Any]]:
    """What a run would ask, None while that is not known; and what a page shows of the counting."""
    found = estimate(outlook, ask.studio, _datasets(ask).get(draft.data))
    return (None, follow(ask, found)) if isinstance(found, Reading) else (found, follow(ask, None))


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
    target, path = said.get("target"), str(ask.studio.store.path)
    expected, following = _expected(ask, draft, outlook)
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
        expected=expected,
        **following,
        runs=outlook.runs,
        hosts=list(dict.fromkeys(hosts)),
        model=model_of(said.get("model_config") or {}),
        settings=settings_lines(said, draft),
        texts=[("YAML", as_yaml(said)), ("Python", as_python({**said, "store": path})),
               ("Command line", f"valor-gpu eval run evaluation.yaml --store {shlex.quote(path)}")],
    )  # fmt: skip


def take_submission(ask: Ask) -> Response:
    """Makes the runs and starts them; the draft goes."""
    draft, store = find_draft(ask), ask.studio.store
    if ask.field("prompts") == "asked":
        draft = save(store, draft, keep_prompts=ask.field("keep_prompts") == "yes")
    outlook = _look(ask, draft)
    if outlook.problems:
        return review(ask, "Nothing was started.")
    ids = submit(outlook.arguments, store, draft.variants, draft.id, outlook.source)
    for uid in ids:
        jobs.start(store, uid)
    return see(f"/runs/{ids[0]}" if len(ids) == 1 else "/runs")


def discard(ask: Ask) -> Response:
    """Takes a draft away, and what is read for it."""
    draft = find_draft(ask)
    forget_upload(ask.studio, draft.upload)
    ask.studio.store.views.delete(KIND, draft.id)
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
