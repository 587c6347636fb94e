"""What must be as it was when a run goes on: its data and the arguments that decide its rows and scores. No torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import RunConfig
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.rows.data import DataSource
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.store import Run
from valor_gpu.store.values import json_text

_KEPT = ("task_type", "key", "limit", "epochs", "repeats", "seed")
"""Arguments of a run that it keeps, whatever is given when it goes on."""
_REFERENCE = re.compile(r"\s*\$\{\s*data[.$](.+?)\s*\}\s*", re.DOTALL)
_SHOWN = 60  # characters of a value


def check_arguments(config: RunConfig, settings: Settings) -> None:
    """Raises for an argument that is given to a run that goes on and is not the one that it began with.

    Args:
        config: of the run.
        settings: that were given; one that is left out is the run's.

    Raises:
        InputError: naming the argument, and both values.
    """
    plain = Settings()
    for name in _KEPT:
        given, kept = getattr(settings, name), getattr(config, name)
        if given != getattr(plain, name) and given != kept:
            raise _differs(name, kept or getattr(plain, name), given)
    _check_parameters(config, settings)
    for name, reference in (settings.data_mapping or {}).items():
        kept_reference = config.data_mapping.get(field_of(name) or name)
        if kept_reference is not None and _bare(reference) not in (None, _bare(kept_reference)):
            raise _differs(f"data_mapping[{name!r}]", kept_reference, reference)
    names = {each["name"] for each in config.evaluators}
    for metric in settings.metrics_list or ():
        left_out = any(str(metric) in note for note in config.notes)  # for want of a column, say
        if isinstance(metric, str) and metric in EVALUATORS and metric not in names and not left_out:
            raise InputError(
                f"metrics_list must have metrics of the run that goes on, {', '.join(sorted(names))}, but has"
                f" {metric!r}: leave it out, and add its scores by rescore_run"
            )


def _check_parameters(config: RunConfig, settings: Settings) -> None:
    """Raises for a threshold, or parameters of a metric, that the run does not have."""
    for name, threshold in (settings.thresholds or {}).items():
        if config.thresholds.get(name) != threshold:
            raise _differs(f"thresholds[{name!r}]", config.thresholds.get(name), threshold)
    for name, parameters in (settings.metric_params or {}).items():
        if _plain(parameters) not in (None, _plain(config.metric_params.get(name))):
            raise _differs(f"metric_params[{name!r}]", config.metric_params.get(name), parameters)


def _plain(parameters: object) -> Any:
    """Returns parameters as the store has them; None for objects, which it does not have."""
    try:
        return json.loads(json_text("metric_params", parameters))
    except InputError:
        return None


def _bare(reference: str) -> str | None:
    """The column that a reference names; None for one to the target."""
    match = _REFERENCE.fullmatch(reference)
    return match[1] if match is not None else None if "${" in reference else reference.strip()


def _differs(name: str, kept: Any, given: Any) -> InputError:
    shown = f"{kept!r:.{_SHOWN}}, but got {given!r:.{_SHOWN}}"
    return InputError(
        f"{name} must be that of the run that goes on, {shown}: leave it out, or begin a new run without resume"
    )


def check_data(run: Run, config: RunConfig, source: DataSource) -> None:
    """Raises unless data are those of a run: their bytes, or values, and the columns that are read of them.

    Args:
        run: that goes on.
        config: of the run.
        source: the data now.

    Raises:
        InputError: with what differs, as far as stored rows show it.
    """
    columns = list(config.data["columns"])
    has_changed = source.hash != config.data["hash"]
    if not has_changed and all(name in source.columns for name in columns):
        return
    there = list(source.with_all_columns().columns)
    if not has_changed and all(name in there for name in columns):
        return
    shown = f"whose hash is {config.data['hash'][:16]}, but {source.name} has {source.hash[:16]}: "
    raise InputError(
        f"data must be the run's, {shown if has_changed else f'but {source.name} is read otherwise: '}"
        f"the data have changed, start a new run ({_difference(run, config, source, there)})"
    )


def _difference(run: Run, config: RunConfig, source: DataSource, there: list[str]) -> str:
    """The first thing that differs."""
    columns = list(config.data["columns"])
    if missing := [name for name in columns if name not in there]:
        return f"they have no column {', '.join(map(repr, missing[:5]))}"
    if more := [name for name in there if name not in columns]:
        return f"they have the column {', '.join(map(repr, more[:5]))}, too"
    found = _changed_row(run, config, source)
    rows, now = config.data["rows"], source.count_rows()
    if rows is not None and now != rows:
        return f"{found or 'the stored rows are the same'}; {rows:,} rows were there, now there are {now:,}"
    return found or "the stored rows are the same, those behind them or the file's bytes are not"


def _changed_row(run: Run, config: RunConfig, source: DataSource) -> str:
    """Which of the stored rows is the first that differs, and in what; empty where none does."""
    rows = iter(source)
    number, values = 0, None
    for stored in run.stream_rows():
        wanted = (stored.number - 1) // config.epochs + 1
        while number < wanted:
            row = next(rows, None)
            if row is None:
                return f"row {wanted:,} is not there any more"
            number, values = row.number, row.values
        if isinstance(values, Mapping) and dict(stored.inputs) != dict(values):
            names = [name for name in {**stored.inputs, **values} if stored.inputs.get(name) != values.get(name)]
            return f"row {number:,} has another {', '.join(map(repr, names[:5]))}"
    return ""
