"""Logging of runs to MLflow. Needs the extra ``mlflow``; its telemetry is switched off unless the user has set it."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.artifacts import write_artifacts
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.store.runs import Run

EXPERIMENT = "valor_gpu"
"""Experiment of the runs, where the environment variable ``MLFLOW_EXPERIMENT_NAME`` names none."""

_STATES = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED", "running": "RUNNING", "draft": "SCHEDULED"}
_LONGEST_PARAM, _LONGEST_TAG = 500, 5000  # characters, the least that any server takes
_BATCH = 100  # params, tags or metrics of a request


def open_client(tracking_uri: str) -> Any:
    """Returns MLflow's client for a server.

    Args:
        tracking_uri: ``http(s)://`` of a server, or what else this installation of MLflow knows.

    Raises:
        MissingExtraError: MLflow is not installed.
        InputError: MLflow cannot use the address.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow import MlflowClient
    except ModuleNotFoundError as error:
        if error.name != "mlflow":
            raise
        raise MissingExtraError("mlflow", "mlflow", "tracking_uri") from None
    try:
        return MlflowClient(tracking_uri=tracking_uri)
    except Exception as error:
        shown = Secrets().mask(tracking_uri)
        raise InputError(
            f"tracking_uri must be an address that MLflow can log to, such as http://127.0.0.1:5000, but {shown!r} is "
            f"none: {Secrets().mask(str(error)):.300}; leave it out to keep the run in the store alone"
        ) from None


def log_run(run: Run, tracking_uri: str, files: Mapping[str, Path] | None = None) -> dict[str, Any] | None:
    """Logs a run that has ended: its numbers, configuration, tags and files. A resumed run is logged to the same one.

    The metrics are those of the summary that are numbers; characters that MLflow's names cannot have become ``_``. The
    tags are the user's, and ``valor_gpu.run_id``, ``valor_gpu.name``, ``valor_gpu.state``, ``valor_gpu.version``. The
    summary of the run then says under ``tracking`` where it was logged: ``uri`` (credentials masked), ``run_id``,
    ``experiment_id``, ``url``.

    Args:
        run: of a store.
        tracking_uri: as of :func:`open_client`.
        files: of the run; by default they are made for the purpose.

    Returns:
        What the summary says. None, with a warning, where the server did not take it: the run itself is in the store.

    Raises:
        MissingExtraError: MLflow is not installed.
        InputError: MLflow cannot use the address.
    """
    client = open_client(tracking_uri)
    summary = dict(run.finished_summary or {})
    try:
        found = _log(client, run, summary, tracking_uri, files)
    except Exception as error:
        told = Secrets().mask(f"{type(error).__name__}: {error}")
        message = f"run {run.id} is in the store, but MLflow did not take it: {told:.500}"
        warnings.warn(message, UserWarning, stacklevel=2)
        return None
    if run.state in ("finished", "stopped", "failed"):
        run.finish(run.state, {**summary, "tracking": found})
    return found


def _log(
    client: Any, run: Run, summary: Mapping[str, Any], tracking_uri: str, files: Mapping[str, Path] | None
) -> dict[str, Any]:
    from mlflow.entities import Metric, Param, RunTag

    shown = Secrets().mask(tracking_uri)
    experiment, identity = _mlflow_run(client, run, summary, shown)
    time = int(run.created * 1000)
    numbers = {name: value for name, value in (summary.get("metrics") or {}).items() if value is not None}
    entries = {
        "metrics": [Metric(_name(name), float(value), time, 0) for name, value in numbers.items()],
        "params": [Param(_name(name), value) for name, value in _params(run.config)],
        "tags": [RunTag(_name(name), value[:_LONGEST_TAG]) for name, value in _tags(run)],
    }
    for what, items in entries.items():
        for first in range(0, len(items), _BATCH):
            client.log_batch(identity, **{what: items[first : first + _BATCH]})
    with tempfile.TemporaryDirectory() as folder:
        for path in (files or write_artifacts(run, folder)).values():
            client.log_artifact(identity, str(path))
    client.set_terminated(identity, status=_STATES[run.state])
    return {
        "uri": shown,
        "run_id": identity,
        "experiment_id": experiment,
        "url": _page(shown, experiment, identity),
    }


def _mlflow_run(client: Any, run: Run, summary: Mapping[str, Any], shown: str) -> tuple[str, str]:
    """Experiment and id of the MLflow run: that of an earlier part of this run, else a new one."""
    earlier = summary.get("tracking") or {}
    if earlier.get("uri") == shown:
        return str(earlier["experiment_id"]), str(earlier["run_id"])
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    found = client.get_experiment_by_name(name)
    experiment = client.create_experiment(name) if found is None else found.experiment_id
    return str(experiment), str(client.create_run(experiment, run_name=run.name).info.run_id)


def _params(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What decided the numbers, as names and texts."""
    data, judge, target = (config.get(name) or {} for name in ("data", "judge", "target"))
    chosen = {
        "task_type": config.get("task_type"),
        "data": data.get("source"),
        "data_hash": data.get("hash"),
        "judge": judge.get("model") or judge.get("name") or judge.get("kind"),
        "target": target.get("name") or target.get("kind"),
        "evaluators": ", ".join(f"{each['name']} {each.get('version', '')}" for each in config.get("evaluators") or ()),
        **{name: config.get(name) for name in ("repeats", "epochs", "limit", "seed", "group", "valor_gpu")},
        "thresholds": config.get("thresholds") or None,
        **{f"parameters.{name}": value for name, value in (config.get("parameters") or {}).items()},
    }
    for name, value in chosen.items():
        if value not in (None, ""):
            yield name, (value if isinstance(value, str) else json.dumps(value))[:_LONGEST_PARAM]


def _tags(run: Run) -> Iterator[tuple[str, str]]:
    for name, value in run.tags.items():
        yield name, value if isinstance(value, str) else json.dumps(value)
    about = {"run_id": run.id, "name": run.name, "state": run.state, "version": str(run.config.get("valor_gpu", ""))}
    for name, value in about.items():
        yield f"valor_gpu.{name}", value


def _name(name: str) -> str:
    """A name as MLflow takes it: letters and digits of ASCII, ``_ - . / :`` and blanks."""
    kept = "".join(c if (c.isascii() and c.isalnum()) or c in "_-./: " else "_" for c in name)
    return kept[:250] or "_"


def _page(shown: str, experiment: str, identity: str) -> str | None:
    """Address of the run's page on a server; None for other stores."""
    if urlsplit(shown).scheme not in ("http", "https"):
        return None
    return f"{shown.rstrip('/')}/#/experiments/{experiment}/runs/{identity}"
