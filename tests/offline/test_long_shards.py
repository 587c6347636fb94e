"""Shards that never end: the log names them, and ``shard_timeout`` ends them alone."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.logs import logged
from tests.offline.shard_data import ROOT, classification
from tests.offline.test_pool import run, slow, workers_at_work
from tests.processes import is_alive, wait_for
from valor_gpu.cli import main
from valor_gpu.errors import InputError
from valor_gpu.offline import OfflineConfig, offline_status, run_offline
from valor_gpu.offline.engines import pool
from valor_gpu.offline.long_shards import LongShards


class Leaping:
    """A clock that is an hour ahead once a file is there.

    Args:
        sign: the file.
    """

    def __init__(self, sign: Path) -> None:
        self._sign = sign

    def monotonic(self) -> float:
        return time.monotonic() + 3600 * self._sign.exists()


@pytest.mark.parametrize("engine", ["local", pytest.param("pool", marks=pytest.mark.slow)])
def test_shard_that_hangs_in_native_code_fails_alone(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**slow(tmp_path), "shard_timeout": 1800}
    alone = run({**slow(tmp_path), "output": str(tmp_path / "alone")})
    for path in tmp_path.glob("*.at"):
        path.unlink()
    (tmp_path / "stuck-1").touch()
    monkeypatch.setattr(pool, "time", Leaping(tmp_path / "is-stuck"))
    monkeypatch.setattr("valor_gpu.offline.long_shards.FIRST", 0.05)  # it looks so soon
    told: list[str] = []

    def tell(done: int, total: int, record: Any) -> None:
        told.append(record.error)
        (tmp_path / "is-stuck").unlink(missing_ok=True)

    result = run(config, engine=engine, workers=1, progress=tell)
    error = (
        f"{tmp_path}/part-0.jsonl took longer than shard_timeout, 1800 s, and was ended: the next run tries it again"
    )
    assert told == [error, "", "", "", ""]
    assert [failure.error for failure in result.failures] == [error]
    assert result.counts["counted"] == 4
    assert len(offline_status(config).failures) == 1
    workers = workers_at_work(tmp_path)
    assert len(workers) == 2
    wait_for(lambda: not any(map(is_alive, workers)))
    assert run(config, engine=engine, workers=1).to_dict() == alone.to_dict()


def test_what_is_told_of_a_long_shard_names_its_limit() -> None:
    looks = LongShards(1800)
    looks.ended(50)
    with logged(logging.WARNING) as log:
        assert looks.look({"part-0.jsonl": 140.0, "part-1.jsonl": 20.0}) == 10.0
        assert log.getvalue() == ""
        assert looks.look({"part-0.jsonl": 150.0, "part-1.jsonl": 30.0}) == 120.0
    told = "part-0.jsonl has been at work for 150 s and has not ended: it is ended after shard_timeout, 1800 s"
    assert told in log.getvalue() and "part-1" not in log.getvalue()


def test_shard_that_hangs_is_named_in_the_log_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = slow(tmp_path)
    (tmp_path / "wait").touch()
    monkeypatch.setattr("valor_gpu.offline.long_shards.FIRST", 0.01)

    def release() -> None:
        wait_for(lambda: "part-0.jsonl has been at work" in log.getvalue())
        (tmp_path / "wait").unlink()

    with logged(logging.WARNING) as log:
        waiter = threading.Thread(target=release)
        waiter.start()
        assert run(config).counts["counted"] == 5
        waiter.join()
    assert "s and has not ended: shard_timeout would end such shards" in log.getvalue()
    assert not [thread for thread in threading.enumerate() if thread.name == "valor_gpu-long-shards"]


def test_what_is_told_and_when() -> None:
    looks = LongShards(None)
    with logged(logging.WARNING) as log:
        assert looks.look({}) == 60
        assert looks.look({"a": 59, "b": 10}) == 1
        assert looks.look({"a": 60, "b": 11}) == 49
        assert looks.look({"a": 119, "b": 59.5}) == 0.5
        assert log.getvalue().count("\n") == 1
        assert looks.look({"a": 121}) == 121
        looks.ended(100)
        assert looks.look({"c": 200}) == 100  # others take as long
        assert looks.look({"a": 60, "c": 300}) == 240
    assert [line.split()[2] for line in log.getvalue().splitlines()] == ["a", "a", "c"]


HANGING = """
import ctypes
from valor_gpu.offline import long_shards
long_shards._GRACE = 0.0
with long_shards.ended_by_itself(0.01):
    ctypes.PyDLL(None).pause()
"""


def test_process_that_hangs_without_a_driver_ends_by_itself() -> None:
    found = subprocess.run([sys.executable, "-c", HANGING], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1
    assert "Timeout (0:00:00.010000)!" in found.stderr


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (0, r"shard_timeout must be .*0\.001"),
        (-1, r"shard_timeout must be .*0\.001"),
        ("10 min", "shard_timeout must be a number but got '10 min'"),
        (True, "shard_timeout must be a number but got True"),
        (float("nan"), "shard_timeout must be .*nan"),
        (1e9, r"shard_timeout must be .* but"),
    ],
)
def test_limits_that_are_none(tmp_path: Path, limit: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_offline({**classification(tmp_path, shards=1), "shard_timeout": limit})


def test_limit_changes_no_state_and_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = classification(tmp_path, shards=1)
    first, second = (OfflineConfig.from_dict({**config, "shard_timeout": limit}) for limit in (None, 600))
    assert (first.digest, second.shard_timeout) == (second.digest, 600.0)
    assert OfflineConfig.from_dict(second.to_dict()) == second
    result = run(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["offline", "run", str(tmp_path / "config.json"), "--shard-timeout", "600"]) == 0
    assert json.loads((tmp_path / "out/result.json").read_text()) == result.to_dict()
    with pytest.raises(SystemExit):
        main(["offline", "run", str(tmp_path / "config.json"), "--shard-timeout", "0"])
    assert "must be seconds from 0.001 to 31,536,000 but got '0'" in capsys.readouterr().err
