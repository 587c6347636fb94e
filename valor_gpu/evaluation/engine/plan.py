"""What a run will do, with everything that may be wrong found before its first row. No torch."""

from __future__ import annotations

import os
import secrets as randomness
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_number, near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.config import RunConfig
from valor_gpu.evaluation.engine.metrics import RunEvaluator, default_names, resolve_evaluators
from valor_gpu.evaluation.engine.services import Services, check_judge, judge_identity, open_services
from valor_gpu.evaluation.engine.settings import Settings, parameters_text
from valor_gpu.evaluation.models import identity_of
from valor_gpu.evaluation.results.files import METRICS, artifact_paths
from valor_gpu.evaluation.results.parts import with_parts
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.evaluation.rows import mapping as mappings
from valor_gpu.evaluation.rows._references import ColumnsError, shown_names
from valor_gpu.evaluation.rows.data import DataSource, open_data
from valor_gpu.evaluation.rows.fields import ANSWER, MESSAGES, field_of
from valor_gpu.evaluation.rows.keys import RowKeys
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import Target
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.statistics import Prices

if TYPE_CHECKING:
    from valor_gpu.store import Run, Store

_COST = "cost"
_MEASURED = frozenset({"seconds", _COST})  # fields that the run measures of a target
BASELINE_ANSWER = "baseline_answer"


@dataclass(frozen=True)
class Plan:
    """A run that can begin.

    Attributes:
        config: as the store keeps it.
        services: what it asks.
        evaluators: what scores.
        mapping: column or output of every field.
        limits, prices: of the judge.
        cache: of the judge's replies.
        source: the data; None where the rows come from the store.
        baseline: the run that this one is compared with.
        fills_baseline: whether the baseline's answers are the field ``baseline_answer``.
        total: number of rows; None where it is not known.
        progress: function, or whether to show a line.
        answers: whether the target is to answer; False where rows have their answers already.
    """

    config: RunConfig
    services: Services
    evaluators: tuple[RunEvaluator, ...]
    mapping: mappings.Mapping
    limits: Limits
    prices: Prices | None
    cache: Any = None
    source: DataSource | None = None
    baseline: Run | None = None
    fills_baseline: bool = False
    total: int | None = None
    progress: Any = False
    answers: bool = False

    @cached_property
    def judged(self) -> tuple[RunEvaluator, ...]:
        """Evaluators that ask the judge."""
        return tuple(each for each in self.evaluators if each.judged)

    @cached_property
    def computed(self) -> tuple[RunEvaluator, ...]:
        """Evaluators that compute."""
        return tuple(each for each in self.evaluators if not each.judged)

    @cached_property
    def sees_fields_alone(self) -> bool:
        """Returns whether all evaluators are the package's own, which read nothing but the fields that they name."""
        return all(each.source == "builtin" for each in self.evaluators)

    @property
    def has_target(self) -> bool:
        """Returns whether rows have outputs of a target."""
        return self.config.target is not None


def make_plan(settings: Settings, store: Store, source: DataSource | None = None) -> Plan:
    """Checks all arguments and opens what they name.

    Args:
        settings: the arguments.
        store: of evaluators and of the baseline.
        source: the data, where they are opened already.

    Raises:
        InputError: an argument cannot be.
    """
    settings.check()
    source = source or _opened(settings)
    try:
        return _plan_of(settings, store, source)
    except ColumnsError:  # a column may begin behind the first rows
        if not source.columns.is_partial:
            raise
        return _plan_of(settings, store, source.with_all_columns())


def _plan_of(settings: Settings, store: Store, source: DataSource) -> Plan:
    services = open_services(settings)
    if services.target is not None:
        services.target.map_columns(settings.data_mapping, source.columns)
        services.target.check_columns(source.columns)
    baseline = find_baseline(settings.baseline, store)
    task = task_of(settings, source.columns)
    notes: list[str] = []
    evaluators = _evaluators(settings, source, services, task, store, notes)
    fills = fills_baseline(evaluators, baseline, source.columns)
    _check_cost(evaluators, services.target)
    inputs = _inputs_mapped(services.target, settings.data_mapping)
    needed = {**fields_needed(evaluators, services.target is not None, fills), **inputs}
    mapping = mappings.resolve_mapping(settings.data_mapping, source.columns, services.outputs, needed, task)
    notes += mapping.warnings
    check_judge(evaluators, services.judge, settings)
    check_thresholds(settings.thresholds, evaluators)
    _check_slices(settings, source)
    RowKeys(source.columns, mapping, settings.key)
    cache = getattr(settings.cache, "path", settings.cache)
    _check_folder(settings.output_path, {"the data": source.name, "the store": store.path, "the cache": cache})
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)
    config = _config(settings, source, services, evaluators, task, mapping, baseline, notes, store)
    return Plan(
        config,
        services,
        evaluators,
        mapping,
        settings.limits(),
        settings.token_prices(services.judge),
        settings.cache,
        source,
        baseline,
        fills,
        total_of(config, source),
        settings.progress,
        services.target is not None,
    )


def _opened(settings: Settings) -> DataSource:
    if settings.data is None:
        raise InputError("data must be a path, a list of dicts or a data frame but is not given")
    return open_data(settings.data)


def _inputs_mapped(target: Target | None, data_mapping: Mapping[str, str] | None) -> dict[str, frozenset[str]]:
    """Parameters of the target that are no fields and that the mapping names."""
    known = frozenset() if target is None else target.requires | (target.accepts or frozenset())
    named = frozenset(name for name in data_mapping or () if name in known and field_of(name) is None)
    return {"the target": named} if named else {}


def _evaluators(
    settings: Settings, source: DataSource, services: Services, task: str, store: Store, notes: list[str]
) -> tuple[RunEvaluator, ...]:
    """The evaluators that were asked for, else those of the defaults that can be."""
    chosen = chosen_metrics(settings.metrics_list, settings.evaluators)
    wanted = default_names(task) if chosen is None else chosen
    evaluators = resolve_evaluators(wanted, task, settings.metric_params, services.embed, store)
    _check_cost(evaluators, services.target)
    return evaluators if chosen is not None else _possible(evaluators, settings, source, services, task, notes)


def _possible(
    evaluators: tuple[RunEvaluator, ...],
    settings: Settings,
    source: DataSource,
    services: Services,
    task: str,
    notes: list[str],
) -> tuple[RunEvaluator, ...]:
    """The default metrics whose fields are there; a note names the others.

    Raises:
        InputError: there is none.
    """
    found = mappings.resolve_mapping(settings.data_mapping, source.columns, services.outputs, (), task)
    lacking = {each.name: found.missing(each.requires) for each in evaluators}
    if any(lacking.values()) and source.columns.is_partial:
        raise ColumnsError(f"columns of {source.columns.seen} lack fields of default metrics")
    left_out = ", ".join(f"{name} (needs {', '.join(fields)})" for name, fields in lacking.items() if fields)
    if all(lacking.values()):
        raise InputError(
            f"no default metric of task_type {task!r} can be computed: {left_out}; columns:"
            f" {shown_names(source.columns)}. Name metrics by metrics_list, or columns by data_mapping"
        )
    if left_out:
        notes.append(f"default metrics left out, since nothing gives their fields: {left_out}")
    return tuple(each for each in evaluators if not lacking[each.name])


def _config(
    settings: Settings,
    source: DataSource,
    services: Services,
    evaluators: Sequence[RunEvaluator],
    task: str,
    mapping: mappings.Mapping,
    baseline: Run | None,
    notes: Sequence[str],
    store: Store,
) -> RunConfig:
    prices, secrets = settings.token_prices(services.judge), services.secrets
    parameters = secrets.mask_json(_json_of(settings.parameters))
    cache = getattr(settings.cache, "path", settings.cache)
    as_they_are = ("repeats", "epochs", "key", "limit", "max_cost", "on_error", "seed", "group", "keep_prompts")
    return RunConfig(
        evaluation_name=secrets.mask_known(settings.evaluation_name or _name(parameters)),
        data=_data(source, settings, store),
        task_type=task,
        data_mapping=mapping.to_dict(),
        target=None if (target := services.target) is None else {**target.config(), "version": target.version},
        evaluators=tuple(masked_description(each, secrets) for each in evaluators),
        judge=judge_identity(services.judge),
        embedding=identity_of(services.embed),
        limits={name: getattr(settings, name) for name in ("max_concurrency", "rpm", "tpm", "timeout")},
        cache=None if cache is None else os.fspath(cache),
        thresholds=dict(settings.thresholds or {}),
        metric_params=secrets.mask_json(_json_of(settings.metric_params or {}), known=True),
        slice_by=settings.slice_columns(),
        prices=None if prices is None else prices.to_dict(),
        parameters=parameters,
        baseline=None if baseline is None else baseline.id,
        output_path=None if settings.output_path is None else os.fspath(settings.output_path),
        notes=tuple(secrets.mask(note) for note in notes),
        **{name: getattr(settings, name) for name in as_they_are},
    )


def masked_description(each: RunEvaluator, secrets: Secrets) -> dict[str, Any]:
    """Describes an evaluator for the configuration; the version is that of its real parameters."""
    found = each.describe()
    return {**found, "parameters": secrets.mask_json(found["parameters"], known=True)}


def _data(source: DataSource, settings: Settings, store: Store) -> dict[str, Any]:
    """Describes the data for the configuration; a file by its absolute path, so that another process finds it."""
    given = settings.data
    in_memory = source.format in ("rows", "frame")
    name = source.name if in_memory or not os.path.exists(source.name) else str(Path(source.name).absolute())
    rows = len(given) if in_memory and hasattr(given, "__len__") else None
    if rows is None:
        kept = next((each.rows for each in store.datasets.list() if each.hash == source.hash), None)
        rows = source.count_rows() if kept is None and settings.limit is None else kept
    return {"source": name, "hash": source.hash, "columns": list(source.columns), "rows": rows}


def total_of(config: RunConfig, source: DataSource | None = None) -> int | None:
    """Number of rows of the run, each as often as the target answers it.

    Args:
        config: of the run.
        source: the data, which are counted where the configuration does not say how many rows they have.

    Returns:
        None where neither tells.
    """
    rows = config.data["rows"]
    if rows is None and source is not None:
        rows = source.count_rows(config.limit)
    if rows is None:
        return None
    return int(rows if config.limit is None else min(rows, config.limit)) * config.epochs


def _name(parameters: Mapping[str, Any]) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {randomness.token_hex(2)}{parameters_text(parameters)}"


def _json_of(value: Any) -> Any:
    """A value as JSON; what is none as its text."""
    if isinstance(value, Mapping):
        return {str(name): _json_of(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_of(each) for each in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def task_of(settings: Settings, columns: Sequence[str]) -> str:
    """The task that the arguments or, without ``task_type``, the mapping and the columns say."""
    if settings.task_type is not None:
        return settings.task_type
    mapped = {field_of(name) or name: str(reference) for name, reference in (settings.data_mapping or {}).items()}
    answer = mapped.get(ANSWER, "").strip().removeprefix("${").removesuffix("}").replace("$", ".")
    if MESSAGES in mapped or field_of(answer.rpartition(".")[2]) == MESSAGES:
        return "chat"
    fields = {field_of(column) for column in columns}
    return "chat" if MESSAGES in fields and not fields & {"question", ANSWER} and not mapped else "qa"


def chosen_metrics(metrics: Any, others: Any) -> Any:
    """The metrics that were asked for by both arguments; None for the defaults."""
    if others is None or metrics is None:
        return others if metrics is None else metrics
    if isinstance(metrics, (Mapping, str)):
        raise InputTypeError(f"metrics_list must be a list but got {type(metrics).__name__}")
    if not isinstance(others, Mapping):
        return [*metrics, *others]
    return [*((None, each) for each in metrics), *others.items()]


def fields_needed(
    evaluators: Sequence[RunEvaluator], has_target: bool, has_baseline: bool
) -> dict[str, frozenset[str]]:
    """Fields that data or target must give to each evaluator; what the run itself gives is left out."""
    given = (_MEASURED if has_target else frozenset()) | ({BASELINE_ANSWER} if has_baseline else frozenset())
    return {each.name: each.requires - given for each in evaluators}


def fills_baseline(evaluators: Sequence[RunEvaluator], baseline: Run | None, columns: Sequence[str]) -> bool:
    """Returns whether rows get the baseline's answers."""
    needed = any(BASELINE_ANSWER in each.requires for each in evaluators)
    return needed and baseline is not None and BASELINE_ANSWER not in columns


def check_thresholds(thresholds: Mapping[str, float | str] | None, evaluators: Sequence[RunEvaluator]) -> None:
    """Raises for thresholds of other evaluators, outside their scale, or of levels that there are not."""
    infos = with_parts([each.describe() for each in evaluators], (), thresholds or ())
    scales = {each["name"]: each for each in infos}
    for name, limit in read_thresholds(thresholds, list(scales.values())).items():
        low, high = scales[name]["low"], scales[name]["high"]
        ends = float("-inf") if low is None else low, float("inf") if high is None else high
        check_number(f"threshold of {name}", limit.limit, *ends)


def _check_slices(settings: Settings, source: DataSource) -> None:
    for name in settings.slice_columns():
        if name not in source.columns:
            raise ColumnsError(
                f"slice_by must name columns but has {name!r:.80}{near_names(name, source.columns)};"
                f" columns: {shown_names(source.columns)}"
            )


def _check_cost(evaluators: Sequence[RunEvaluator], target: Target | None) -> None:
    """Raises for a metric of costs where no answer has any: it would fail in every row."""
    if target is None or target.tells_cost:
        return
    for each in evaluators:
        if _COST in each.requires:
            raise InputError(
                f"metric {each.name!r} needs what an answer costs, which prices of a model's tokens tell, but target"
                f" {target.name!r} has none: give prices, or leave the metric out"
            )


def _check_folder(
    output_path: str | os.PathLike[str] | None, kept: Mapping[str, str | os.PathLike[str] | None]
) -> None:
    """Raises unless the folder of the files is there or can be made, and none of them replaces a file of the run."""
    if output_path is None:
        return
    if "\0" in os.fspath(output_path):  # of which a path only says that it does not exist
        raise InputError("output_path must be the path of a folder but is none: it has a NUL character")
    try:
        paths = artifact_paths(output_path)
        for (what, file), path in product(kept.items(), paths.values()):
            if file is not None and os.path.exists(file) and path.exists() and path.samefile(file):
                raise InputError(f"output_path must be another than that of {what}, since {path} would replace it")
        folder = paths[METRICS].parent
        nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    except OSError as error:  # a name that is too long
        raise InputError(f"output_path must be the path of a folder but is none: {str(error)[:200]}") from error
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(f"output_path must be a folder that can be written but {nearest} is none")


def find_baseline(baseline: Any, store: Store) -> Run | None:
    """The run that ``baseline`` means: a run, its id or name, or a result.

    Raises:
        InputError: there is none.
    """
    if baseline is None:
        return None
    named = baseline if isinstance(baseline, str) else getattr(baseline, "run_id", getattr(baseline, "id", None))
    if not isinstance(named, str):
        raise InputTypeError(f"baseline must be a run, its id or name, or a result but got {type(baseline).__name__}")
    return store.run(named)
