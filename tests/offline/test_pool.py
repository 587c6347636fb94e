"""The pool: the same bits as one process, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tests.offline.shard_data import ROOT, classification, coco
from tests.processes import is_alive, wait_for
from valor_gpu.errors import StoreError, ValorError
from valor_gpu.offline import OfflineConfig, OfflineResult, offline_status, run_offline
from valor_gpu.offline.engines import pool, worker
from valor_gpu.offline.records import StateFolder
from valor_gpu.offline.shards import find_shards


def run(config: dict[str, Any], **more: Any) -> OfflineResult:
    result = run_offline(config, **more)
    assert result is not None
    return result


def slow(folder: Path, **more: Any) -> dict[str, Any]:
    """A configuration whose updates do as files in ``folder`` say."""
    config = classification(folder, rows=20)
    metric = {"class": "tests.offline.slow_metric:Slow", "folder": str(folder), **more}
    return {**config, "metrics": {"slow": metric, "auc": config["metrics"]["auc"]}}


def workers_at_work(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.at")]


@pytest.mark.slow
def test_pool_gives_the_bytes_of_one_process(tmp_path: Path) -> None:
    config = classification(tmp_path)
    (tmp_path / "part-2.jsonl").write_text("{")
    alone = run(config)
    both = run({**config, "output": str(tmp_path / "pool")}, engine="pool", workers=2)
    assert both.to_dict() == alone.to_dict()
    assert both.counts["failed"] == 1
    results = [(tmp_path / folder / "result.json").read_bytes() for folder in ("out", "pool")]
    assert results[0] == results[1]


def test_worker_that_is_killed_is_replaced_and_its_shard_done(tmp_path: Path) -> None:
    config = slow(tmp_path)
    (tmp_path / "kill-1").touch()
    result = run(config, engine="pool", workers=2)
    assert len(workers_at_work(tmp_path)) >= 2
    assert not list(tmp_path.glob("kill-*"))
    assert result.counts["counted"] == 5
    assert result.to_dict() == run({**config, "output": str(tmp_path / "alone")}).to_dict()
    results = [(tmp_path / folder / "result.json").read_bytes() for folder in ("out", "alone")]
    assert results[0] == results[1]


@pytest.mark.slow
def test_shard_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    config = {**slow(tmp_path), "retries": 0}
    config["data"]["files"] = [str(tmp_path / f"part-{part}.jsonl") for part in (0, 1)]
    (tmp_path / "kill-1").touch()
    result = run(config, engine="pool", workers=1)
    (failure,) = result.failures
    assert failure.name == str(tmp_path / "part-0.jsonl")
    assert failure.error.endswith("its worker was killed by SIGKILL: the system may have run out of memory")
    assert result.counts["counted"] == 1
    assert run(config).counts["counted"] == 2


@pytest.mark.slow
def test_driver_that_is_killed_leaves_no_worker_and_no_lost_shard(tmp_path: Path) -> None:
    config = slow(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "wait").touch()
    command = [sys.executable, "-m", "valor_gpu", "offline", "run", str(tmp_path / "config.json")]
    driver = subprocess.Popen([*command, "--engine", "pool", "--workers", "2"], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(workers_at_work(tmp_path)) == 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    (tmp_path / "wait").unlink()
    workers = workers_at_work(tmp_path)
    wait_for(lambda: not any(map(is_alive, workers)))
    status = offline_status(config)
    assert status.done == 2  # what was at work when the driver died is on disk
    told: list[int] = []
    result = run_offline(config, progress=lambda done, total, record: told.append(done))
    assert told == [3, 4, 5]
    assert result is not None
    assert result.to_dict() == run({**config, "output": str(tmp_path / "alone")}).to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "pool"])
def test_shard_beyond_the_memory_bound_fails_alone(tmp_path: Path, engine: str) -> None:
    config = slow(tmp_path, greedy=7)  # 20 to 24 rows in updates of 16: 4, 5, 6, 7 and 8 rows at the end
    config["memory_limit"] = "3 GiB"
    result = run(config, engine=engine, workers=1)
    (failure,) = result.failures
    assert failure.name == str(tmp_path / "part-3.jsonl")
    assert failure.error.startswith(f"not enough memory beyond memory_limit, {3 * 2**30:,} bytes: ")
    assert result.counts["counted"] == 4


@pytest.mark.slow
def test_memory_of_a_worker_does_not_grow_with_the_shards(tmp_path: Path) -> None:
    config = coco(tmp_path, parts=20)
    peaks: list[int] = []
    run_offline(config, "pool", 1, lambda done, total, record: peaks.append(record.peak_bytes))
    assert len(peaks) == 20
    assert max(peaks[10:]) - peaks[9] < 8 * 2**20


def test_workers_that_cannot_start_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path)
    monkeypatch.setattr(pool, "_environment", lambda: {**os.environ, "PYTHONPATH": "", "PYTHONHOME": "/nowhere"})
    with pytest.raises(ValorError, match="workers must start but 3 did not, the last one since its worker ended with"):
        run_offline(config, "pool", 1)


def test_worker_that_cannot_write_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker in this process: its shard's states are a folder, so that writing fails as it does on a full disk."""
    config = OfflineConfig.from_dict(classification(tmp_path, shards=1))
    (shard,) = find_shards(config.data)
    StateFolder.of(config).state_path(shard.content()).mkdir(parents=True)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    ours, theirs = socket.socketpair()
    for message in ({"config": config.to_dict(), "cpus": []}, shard.to_dict()):
        ours.sendall(json.dumps(message).encode() + b"\n")
    ours.shutdown(socket.SHUT_WR)
    worker.main(theirs.detach())
    with ours, ours.makefile("rb") as answers:
        assert json.loads(next(answers)) == "ready"
        answer = next(answers)
    driver = object.__new__(pool._Worker)
    driver.socket, driver._rest, driver.is_ready = Mock(recv=lambda _: answer), b"", True
    with pytest.raises(StoreError, match=r"\.state cannot be written: Is a directory: make room or"):
        driver.receive()
    assert offline_status(config).pending == 1
