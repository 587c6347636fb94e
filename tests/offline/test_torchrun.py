"""Ranks of torchrun: the same bytes as one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.offline.shard_data import ROOT, classification
from tests.offline.test_pool import run, slow, wait_for, workers_at_work
from valor_gpu.errors import InputError, ValorError
from valor_gpu.offline import offline_status, run_offline
from valor_gpu.offline.engines import torchrun as torchrun_engine
from valor_gpu.offline.records import StateFolder
from valor_gpu.offline.shards import Shard


def torchrun(config: Path, *arguments: str) -> list[str]:
    """The command, of two ranks that meet at a free port."""
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return [*ranks, "-m", "valor_gpu", "offline", "run", str(config), "--engine", "torchrun", *arguments]


def configured(folder: Path) -> tuple[dict[str, Any], Path]:
    config = slow(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return config, path


@pytest.mark.slow
def test_two_ranks_one_of_which_is_killed_first(tmp_path: Path) -> None:
    config, path = configured(tmp_path)
    (tmp_path / "part-1.jsonl").write_text("{")
    (tmp_path / "wait").touch()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(
        torchrun(path), cwd=ROOT, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: len(workers_at_work(tmp_path)) == 2)
    os.kill(workers_at_work(tmp_path)[0], signal.SIGKILL)
    assert first.wait(60) != 0
    (tmp_path / "wait").unlink()
    assert offline_status(config).done < 4
    second = subprocess.run(torchrun(path), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert second.returncode == 1, second.stderr  # of rank 0: a shard failed
    assert "1 shard of 5 failed and do not count" in second.stderr
    assert second.stdout.count("counted 4") == 1
    run({**config, "output": str(tmp_path / "alone")})
    results = [(tmp_path / folder / "result.json").read_bytes() for folder in ("out", "alone")]
    assert results[0] == results[1]


def test_without_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InputError, match="engine torchrun must be started by torchrun but RANK"):
        run_offline(slow(tmp_path), "torchrun")


def test_rank_that_has_ended_is_a_plain_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(group: Any) -> None:
        raise RuntimeError("[gloo/pair.cc:525] Connection closed by peer\nwhere")

    monkeypatch.setattr(torchrun_engine.dist, "barrier", closed)
    with pytest.raises(ValorError, match=r"but another one has ended, .*: run again, .*Connection closed by peer\)$"):
        torchrun_engine._meet(None)


def test_ranks_share_the_shards_and_look_at_their_own_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path)
    run(config)
    seen: dict[str, list[int]] = {}

    def look(folder: StateFolder, shard: Shard) -> None:
        seen.setdefault(os.environ["RANK"], []).append(shard.number)

    monkeypatch.setattr(StateFolder, "finished", look)
    monkeypatch.setattr(torchrun_engine, "run", lambda config, folder, shards, workers, done: False)
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        assert run_offline(config, "torchrun") is None
    assert {rank: sorted(numbers) for rank, numbers in seen.items()} == {"0": [0, 2, 4], "1": [1, 3]}
