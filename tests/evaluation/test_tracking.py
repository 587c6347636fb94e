"""Logging to MLflow: against a stand-in of its client, and where it is installed against itself."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.evaluation.run import evaluate
from valor_gpu.evaluation.tracking import log_run, open_client
from valor_gpu.store import Store
from valor_gpu.store.runs import Run


class FakeServer:
    """What a client of MLflow was asked to keep."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.fails = ""
        self.telemetry: str | None = None

    def client(self, tracking_uri: str) -> FakeClient:
        self.telemetry = os.environ.get("MLFLOW_DISABLE_TELEMETRY")
        if tracking_uri.startswith("azureml://"):
            raise ValueError(f"unsupported URI {tracking_uri}")
        return FakeClient(self)


class FakeClient:
    """The methods of ``MlflowClient`` that are called."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server

    def get_experiment_by_name(self, name: str) -> Any:
        found = self._server.experiments.get(name)
        return None if found is None else types.SimpleNamespace(experiment_id=found)

    def create_experiment(self, name: str) -> str:
        self._server.experiments[name] = str(len(self._server.experiments) + 1)
        return self._server.experiments[name]

    def create_run(self, experiment_id: str, run_name: str) -> Any:
        if self._server.fails:
            raise RuntimeError(self._server.fails)
        identity = f"run{len(self._server.runs) + 1}"
        self._server.runs[identity] = {
            "name": run_name, "experiment": experiment_id, "metrics": {}, "params": {}, "tags": {}, "files": {},
        }  # fmt: skip
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=identity))

    def log_batch(self, run_id: str, **batch: list[tuple[Any, ...]]) -> None:
        for what, items in batch.items():
            assert len(items) <= 100
            self._server.runs[run_id][what].update({each[0]: each[1] for each in items})

    def log_artifact(self, run_id: str, path: str) -> None:
        self._server.runs[run_id]["files"][Path(path).name] = Path(path).read_text()

    def set_terminated(self, run_id: str, status: str) -> None:
        self._server.runs[run_id]["status"] = status


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    found = FakeServer()
    module, entities = types.ModuleType("mlflow"), types.ModuleType("mlflow.entities")
    module.MlflowClient = found.client  # type: ignore[attr-defined]
    for name in ("Metric", "Param", "RunTag"):
        setattr(entities, name, lambda *values: values)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "")
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def finished(store: Store, **config: Any) -> Run:
    scores = [*make_scores("f1_score", [1, 0.5]), *make_scores("größe", [2, 4])]
    run = make_run(store, ["f1_score", "größe", "rouge1"], make_rows(2), scores, parameters={"prompt": "a"}, **config)
    run.finish("finished", run_summary(run, seconds=1.0))
    return run


def test_a_run_is_logged_with_numbers_params_tags_and_files(store: Store, server: FakeServer) -> None:
    run = finished(store)
    found = log_run(run, "http://me:secret@host:5000/")
    assert found == {
        "uri": "http://***@host:5000/",
        "run_id": "run1",
        "experiment_id": "1",
        "url": "http://***@host:5000/#/experiments/1/runs/run1",
    }
    logged = server.runs["run1"]
    assert logged["metrics"] == {"mean_f1_score": 0.75, "mean_gr__e": 3.0}
    assert (logged["name"], logged["status"], server.experiments) == ("capitals", "FINISHED", {"valor_gpu": "1"})
    assert logged["params"]["data_hash"] == "d1"
    assert logged["params"]["parameters.prompt"] == "a"
    assert logged["params"]["judge"] == "m"
    assert logged["tags"]["valor_gpu.run_id"] == run.id
    assert set(logged["files"]) >= {"eval_results.jsonl", "metrics.json", "run.json"}
    assert json.loads(logged["files"]["metrics.json"])["metrics"]["mean_f1_score"] == 0.75
    assert server.telemetry == "true"
    result = EvaluationResult(store, run)
    assert (result.tracking_uri, result.studio_url) == (found["uri"], found["url"])


def test_a_resumed_run_is_logged_to_the_same_one(store: Store, server: FakeServer) -> None:
    run = finished(store)
    log_run(run, "http://host")
    run.finish("finished", run_summary(run))
    log_run(run, "http://host")
    assert list(server.runs) == ["run1"]
    log_run(run, "http://other")
    assert list(server.runs) == ["run1", "run2"]


def test_a_server_that_fails_costs_no_result(store: Store, server: FakeServer) -> None:
    server.fails = "no permission at http://me:secret@host"
    with pytest.warns(UserWarning, match=r"is in the store, but MLflow did not take it: RuntimeError: .*\*\*\*@host"):
        assert log_run(finished(store), "http://me:secret@host") is None


def test_an_address_that_mlflow_does_not_know_fails_before_the_first_row(server: FakeServer, tmp_path: Path) -> None:
    asked: list[str] = []
    with pytest.raises(InputError, match="tracking_uri must be of an MLflow server that needs no plugin"):
        evaluate(
            data=[{"question": "q", "ground_truth": "a"}], target=lambda question: asked.append(question),
            metrics_list=["exact_match"], tracking_uri="azureml://x", store=tmp_path / "s.sqlite",
        )  # fmt: skip
    assert asked == []


def test_evaluate_logs_its_run(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    result = evaluate(
        data=[{"answer": "a", "ground_truth": "a"}], metrics_list=["exact_match"], tracking_uri="http://host",
        output_path=tmp_path / "out", store=tmp_path / "s.sqlite", tags={"model": "small"},
    )  # fmt: skip
    assert server.experiments == {"mine": "1"}
    logged = server.runs["run1"]
    assert (logged["metrics"], logged["tags"]["model"]) == ({"mean_exact_match": 1.0}, "small")
    assert logged["files"]["eval_results.jsonl"] == (tmp_path / "out" / "eval_results.jsonl").read_text()
    assert result.studio_url == "http://host/#/experiments/1/runs/run1"


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'valor_gpu\[mlflow\]'"):
        open_client("http://host")


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_itself_takes_a_run(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    uri = (tmp_path / "mlruns").as_uri()
    run = finished(store)
    found = log_run(run, uri)
    assert found is not None
    logged = MlflowClient(tracking_uri=uri).get_run(found["run_id"])
    assert logged.data.metrics == {"mean_f1_score": 0.75, "mean_gr__e": 3.0}
    assert (logged.info.status, logged.data.tags["valor_gpu.run_id"]) == ("FINISHED", run.id)
    names = {each.path for each in MlflowClient(tracking_uri=uri).list_artifacts(found["run_id"])}
    assert names >= {"eval_results.jsonl", "metrics.json", "run.json"}
    log_run(run, uri)  # again, with the same params
