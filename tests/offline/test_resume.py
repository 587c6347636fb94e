"""States on disk: what is done is not done again, what is damaged is, and what is there twice counts once."""

from __future__ import annotations

import functools
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.offline.shard_data import classification, classification_rows, write_jsonl
from valor_gpu.classification import Accuracy
from valor_gpu.errors import StoreError
from valor_gpu.offline import OfflineConfig, OfflineResult, offline_status, run_offline
from valor_gpu.offline.engines import local
from valor_gpu.offline.files import write_whole
from valor_gpu.offline.merging import merge_read, merge_tree
from valor_gpu.offline.records import StateFolder
from valor_gpu.offline.shards import Shard
from valor_gpu.offline.work import process_shard


def run(config: dict[str, Any]) -> OfflineResult:
    result = run_offline(config)
    assert result is not None
    return result


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the shards that were evaluated."""
    names: list[str] = []

    def watched(config: OfflineConfig, shard: Shard, *rest: Any) -> Any:
        found = process_shard(config, shard, *rest)
        names.extend([Path(shard.name).name] if found[1] is not None else [])
        return found

    monkeypatch.setattr(local, "process_shard", watched)
    return names


def states(config: dict[str, Any]) -> list[Path]:
    return sorted(StateFolder.of(OfflineConfig.from_dict(config)).path.glob("*.state"))


def test_second_run_evaluates_nothing(tmp_path: Path, worked: list[str]) -> None:
    config = classification(tmp_path)
    first = run(config)
    result = (tmp_path / "out/result.json").read_bytes()
    assert len(worked) == 5
    assert run(config).to_dict() == first.to_dict()
    assert len(worked) == 5
    assert (tmp_path / "out/result.json").read_bytes() == result


def test_stopped_run_goes_on(tmp_path: Path, worked: list[str]) -> None:
    config = classification(tmp_path)

    def stop(done: int, total: int, record: Any) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_offline(config, progress=stop)
    status = offline_status(config)
    assert (status.done, status.pending, status.rows) == (3, 2, 60 + 61 + 62)
    told = []
    result = run_offline(config, progress=lambda *args: told.append(args[:2]))
    assert told == [(4, 5), (5, 5)]
    assert worked == [f"part-{part}.jsonl" for part in range(5)]
    fresh = run({**config, "output": str(tmp_path / "fresh")})
    assert result is not None
    assert result.to_dict() == fresh.to_dict()


def test_changed_shard_alone_is_evaluated_again(tmp_path: Path, worked: list[str]) -> None:
    config = classification(tmp_path)
    run(config)
    times = os.stat(tmp_path / "part-2.jsonl")
    rows = classification_rows()[2]
    rows[0]["truth"] = (rows[0]["truth"] + 1) % 4  # of the same size
    write_jsonl(tmp_path / "part-2.jsonl", rows)
    os.utime(tmp_path / "part-2.jsonl", ns=(times.st_atime_ns, times.st_mtime_ns))
    worked.clear()
    assert run(config).to_dict() == run({**config, "output": str(tmp_path / "fresh")}).to_dict()
    assert worked[0] == "part-2.jsonl"
    assert len(worked) == 1 + 5


def test_other_settings_have_states_of_their_own(tmp_path: Path, worked: list[str]) -> None:
    config = classification(tmp_path)
    run(config)
    other = {**config, "metrics": {"accuracy": {"class": "classification.Accuracy", "num_classes": 4}}}
    run(other)
    assert len(worked) == 10
    run(config)
    assert len(worked) == 10
    assert len(offline_status(config).other_folders) == 1
    more = {**config, "data": {**config["data"], "files": [config["data"]["files"], str(tmp_path / "part-9.jsonl")]}}
    write_jsonl(tmp_path / "part-9.jsonl", classification_rows(1, 10, seed=4)[0])
    assert run(more).counts["counted"] == 6
    assert worked[10:] == ["part-9.jsonl"]


def test_edited_class_has_states_of_its_own(tmp_path: Path, worked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "edited_metric.py"
    module.write_text("from valor_gpu.classification import Accuracy as Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = {**classification(tmp_path), "metrics": {"mine": {"class": "edited_metric:Mine", "num_classes": 4}}}
    run(config)
    run(config)
    assert len(worked) == 5
    module.write_text("from valor_gpu.classification import F1Score as Mine\n")
    run(config)
    assert len(worked) == 10


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone", "other"])
def test_damaged_state_is_made_again(tmp_path: Path, worked: list[str], damage: str) -> None:
    config = classification(tmp_path)
    first = run(config)
    path = states(config)[2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"flip": bytes(data), "cut": bytes(data[:50]), "empty": b"", "other": states(config)[1].read_bytes()}[
                damage
            ]
        )
    worked.clear()
    assert run(config).to_dict() == first.to_dict()
    assert len(worked) == 1


@pytest.mark.parametrize("text, damage", [('"rows": 60', '"rows": 70'), ("/part-0.jsonl", "/part-4.jsonl")])
def test_damaged_record_is_written_again(tmp_path: Path, text: str, damage: str) -> None:
    config = classification(tmp_path)
    first = run(config)
    folder = StateFolder.of(OfflineConfig.from_dict(config)).path / "shards"
    path = next(path for path in folder.iterdir() if "/part-0.jsonl" in path.read_text())
    path.write_text(path.read_text().replace(text, damage, 1))
    assert damage in path.read_text()
    assert run(config).to_dict() == first.to_dict()
    assert damage not in path.read_text()


def test_damage_between_work_and_merge_is_an_error(tmp_path: Path) -> None:
    config = classification(tmp_path)

    def spoil(done: int, total: int, record: Any) -> None:
        if done == total:
            path = states(config)[0]
            *whole, last = path.read_bytes()
            path.write_bytes(bytes((*whole, last ^ 1)))

    with pytest.raises(StoreError, match="is damaged: its checksum must match"):
        run_offline(config, progress=spoil)
    assert not run(config).failures


def test_other_stamps_of_the_same_content_count(tmp_path: Path, worked: list[str]) -> None:
    config = classification(tmp_path)

    def touch(done: int, total: int, record: Any) -> None:
        if done == total:  # as the files of a machine look on another one
            for part in range(3):
                os.utime(tmp_path / f"part-{part}.jsonl", ns=(1, part))

    result = run_offline(config, progress=touch)
    assert result is not None
    assert result.counts["counted"] == 5
    worked.clear()
    assert run(config).to_dict() == result.to_dict()
    assert worked == []


def test_same_content_counts_once(tmp_path: Path, worked: list[str]) -> None:
    config = classification(tmp_path)
    first = run(config)
    shutil.copy(tmp_path / "part-1.jsonl", tmp_path / "part-7.jsonl")
    result = run(config)
    assert len(worked) == 5
    assert result.duplicates == {str(tmp_path / "part-7.jsonl"): str(tmp_path / "part-1.jsonl")}
    assert result.to_dict()["results"] == first.to_dict()["results"]
    assert (result.counts["shards"], result.counts["counted"], result.counts["duplicates"]) == (6, 5, 1)
    both = run({**config, "duplicates": "count"})
    assert both.counts["counted"] == 6
    assert both.counts["rows"] == first.counts["rows"] + 61


def test_bad_rows_of_a_copy_are_told_by_its_own_name(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=1, on_bad_row="row", duplicates="count")
    with open(tmp_path / "part-0.jsonl", "a") as file:
        file.write("?\n")
    run(config)
    shutil.copy(tmp_path / "part-0.jsonl", tmp_path / "part-1.jsonl")
    assert [row.place for row in run(config).bad_rows] == [str(tmp_path / f"part-{n}.jsonl, line 61") for n in range(2)]


def test_half_written_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=2)
    run(config)
    folder = StateFolder.of(OfflineConfig.from_dict(config)).path
    word = "0" * 32
    dead = folder / f"x.state.part-{socket.gethostname()}-{2**22 + 5}-{word}"  # above the largest process id of Linux
    alive = folder / f"x.state.part-{socket.gethostname()}-{os.getpid()}-{word}"
    elsewhere = folder / f"x.state.part-some.other-host-1-{word}"
    for path in (dead, alive, elsewhere):
        path.write_bytes(b"half")
    run(config)
    assert [path.exists() for path in (dead, alive, elsewhere)] == [False, True, True]


def test_no_part_of_a_file_is_left_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"/a cannot be written: No space left on device: make room or"):
        write_whole(tmp_path / "a", b"text")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 13, 45])
def test_tree_has_one_form(count: int) -> None:
    """Weights whose sum depends on the order: the tree is compared with a recursion over whole levels."""
    generator = torch.Generator().manual_seed(count)
    weights = torch.rand(count, generator=generator, dtype=torch.float64) ** 4

    def leaf(place: int) -> Accuracy:
        metric = Accuracy(num_classes=2)
        metric.update(torch.tensor([1]), torch.tensor([1]), weights[place : place + 1])
        return metric

    level = weights.tolist()
    while len(level) > 1:
        level = [sum(level[place : place + 2]) for place in range(0, len(level), 2)]
    states = [leaf(place).to_bytes() for place in range(count)]
    reads = [functools.partial(states.__getitem__, place) for place in range(count)]
    merged = merge_tree(states, lambda: Accuracy(num_classes=2))
    sums = {value for tensor in merged.state().tensors().values() for value in tensor.flatten().tolist()}
    assert not level or level[0] in sums
    for threads in (1, 3):
        again = merge_read(reads, lambda: Accuracy(num_classes=2), threads)
        assert again.to_bytes() == merged.to_bytes()
    assert again.update_count == count
