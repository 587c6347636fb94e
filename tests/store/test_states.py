"""State files that a store keeps with results: compared, migrated, purged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.test_save_result import DETECTIONS, dataset, evaluation
from valor_gpu.cli import OK, main
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.result import Result, Signature
from valor_gpu.state_file import document_of
from valor_gpu.stats import compare
from valor_gpu.store import Store, schema, states


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.sqlite")


def stored_states(store: Store) -> int:
    connection = sqlite3.connect(store.path)
    count = connection.execute("SELECT count(*) FROM states").fetchone()[0]
    connection.close()
    return int(count)


def test_a_run_keeps_what_save_state_writes(store: Store, tmp_path: Path) -> None:
    evaluated = evaluation()
    run = store.save(evaluated, "cats")
    evaluated.save_state(tmp_path / "cats.state")
    found = load_state_file(tmp_path / "cats.state").result
    (tmp_path / "kept.state").write_bytes(store.state_file(run) or b"")
    kept = load_state_file(tmp_path / "kept.state").result
    assert document_of(kept) == document_of(found)
    assert kept.with_intervals(20).to_dict()["intervals"] == found.with_intervals(20).to_dict()["intervals"]


def test_runs_compare_as_the_evaluations_do(store: Store) -> None:
    evaluated = evaluation()
    runs = [store.run(store.save(evaluated, name).id) for name in "ab"]
    found, expected = compare(*runs, replicates=20), compare(evaluated, evaluated, replicates=20)
    assert document_of(found)["values"] == document_of(expected)["values"]


@pytest.mark.parametrize("protocol", ["coco", "lvis"])
def test_the_command_keeps_it(protocol: str, store: Store, tmp_path: Path) -> None:
    document: dict[str, Any] = dataset()
    for image in document["images"]:
        image |= {"neg_category_ids": [1, 2], "not_exhaustive_category_ids": []}
    document["categories"] = [each | {"frequency": "f"} for each in document["categories"]]
    (tmp_path / "gt.json").write_text(json.dumps(document))
    (tmp_path / "dt.json").write_text(json.dumps(DETECTIONS))
    options = ["--gt", tmp_path / "gt.json", "--dt", tmp_path / "dt.json", "--protocol", protocol, "--quiet"]
    given = ["detect", *options, "--store", store.path, "--save-state", tmp_path / "a.state"]
    assert main([str(each) for each in given]) == OK
    assert store.state_file(store.runs()[0]) == (tmp_path / "a.state").read_bytes()


def test_a_run_without_a_state_says_how_to_get_one(store: Store) -> None:
    run = store.save(Result({"map": 0.5}, Signature({"metric": "COCOeval"})), "old")
    assert store.state_file(run) is None
    with pytest.raises(InputError, match=r"run 'old' \(\w+\) must know .* save it again with --store"):
        compare(run, run)


def test_a_metric_gives_its_run_a_state(store: Store, tmp_path: Path) -> None:
    import torch

    from valor_gpu.classification import Accuracy

    metric = Accuracy(num_classes=2, average="micro", keep_rows=True)
    metric.update(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 1]))
    metric.save_state(tmp_path / "a.state")
    run = store.save(metric.result(), "a", state=tmp_path / "a.state")
    assert compare(run, metric, replicates=10).values["difference"]["Accuracy"] == 0
    (tmp_path / "b.state").write_text("{}")
    with pytest.raises(InputError, match=r"state must be a file that save_state wrote but .*b\.state is another kind"):
        store.save(metric.result(), "b", state=tmp_path / "b.state")
    assert [each.name for each in store.runs()] == ["a"]


def test_purging_a_run_takes_its_state_away(store: Store) -> None:
    runs = [store.save(evaluation(), name) for name in "ab"]
    runs[0].delete()
    assert stored_states(store) == 2
    assert store.purge(0) == 1 and stored_states(store) == 1
    assert store.state_file(runs[1]) is not None


def test_an_older_store_is_migrated(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "old.sqlite", isolation_level=None)
    schema.migrate(connection, "old", schema.MIGRATIONS[:1])
    connection.close()
    with Store(tmp_path / "old.sqlite") as store:
        old = store.create_run("old", {"kind": "detection"})
        assert store.state_file(old) is None
        new = store.save(evaluation(), "new")
        assert dict(numbers_of(compare(new, new, replicates=10).values["difference"]))["map"] == 0


def test_a_state_that_is_too_large_is_named(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(states, "LARGEST_STATE", 10)
    (tmp_path / "gt.json").write_text(json.dumps(dataset()))
    (tmp_path / "dt.json").write_text(json.dumps(DETECTIONS))
    options = ["--gt", tmp_path / "gt.json", "--dt", tmp_path / "dt.json", "--store", store.path]
    assert main([str(each) for each in ["detect", *options]]) == OK
    assert "The state is not kept: it has 0 MB and a store keeps up to 0 MB" in capsys.readouterr().out
    assert store.state_file(store.runs()[0]) is None
