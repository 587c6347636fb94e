"""A disk that is full: a plain error, no half file, and the next run goes on from what is there."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.offline.shard_data import classification
from valor_gpu.cli import main
from valor_gpu.errors import StoreError
from valor_gpu.offline import OfflineConfig, OfflineResult, offline_status, run_offline
from valor_gpu.offline.records import StateFolder


def run(config: dict[str, Any], **more: Any) -> OfflineResult:
    result = run_offline(config, **more)
    assert result is not None
    return result


def full_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> list[str]:
    """Lets the disk be full from some write on; gives the files that were written."""
    written: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if not os.path.isdir(name):
            if len(written) == writes:
                raise OSError(28, "No space left on device")
            written.append(name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return written


def check_whole(folder: Path) -> None:
    """No file is a part of one, and states and records are sound."""
    for path in folder.rglob("*"):
        assert ".part-" not in path.name
        if path.suffix == ".json":
            json.loads(path.read_bytes())


def test_full_disk_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path, shards=3, rows=20)
    whole = run({**config, "output": str(tmp_path / "whole")}).to_dict()
    bytes_of = (tmp_path / "whole/result.json").read_bytes()
    for writes in range(3 * 2 + 2):  # state and record of each shard, the result twice
        out = tmp_path / f"out-{writes}"
        here = {**config, "output": str(out)}
        with monkeypatch.context() as patched:
            written = full_after(patched, writes)
            with pytest.raises(StoreError, match=r"cannot be written: No space left on device: make room or choose"):
                run(here)
        assert len(written) == writes
        check_whole(out)
        assert offline_status(here).done == min(writes // 2, 3)
        worked = Mock()
        assert run(here, progress=worked).to_dict() == whole
        assert worked.call_count == 3 - min(writes // 2, 3)
        assert (out / "result.json").read_bytes() == bytes_of


def test_result_of_a_run_before_stays_where_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = classification(tmp_path, shards=2, rows=20)
    run(config)
    before = (tmp_path / "out/result.json").read_bytes()
    fewer = {**config, "data": {**config["data"], "files": str(tmp_path / "part-0.jsonl")}}
    with monkeypatch.context() as patched:
        full_after(patched, 1)
        with pytest.raises(StoreError, match=r"out/result\.json cannot be written: No space left"):
            run(fewer)
    assert (tmp_path / "out/result.json").read_bytes() == before


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Files of this process, and of those that it starts, can have so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("engine", ["local", pytest.param("pool", marks=pytest.mark.slow)])
def test_states_that_the_system_refuses(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python leaves a cut file of bytecode where it cannot write a whole one.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    config = classification(tmp_path, shards=3, rows=20)
    large = tmp_path / "part-2.jsonl"
    large.write_bytes(large.read_bytes() * 200)
    whole = run({**config, "output": str(tmp_path / "whole")})
    folder = StateFolder.of(OfflineConfig.from_dict({**config, "output": str(tmp_path / "whole")})).path
    sizes = sorted(path.stat().st_size for path in folder.glob("*.state"))
    with (
        files_of_at_most(sum(sizes[1:]) // 2),
        pytest.raises(StoreError, match=r"\.state cannot be written: File too large"),
    ):
        run(config, engine=engine, workers=1)
    check_whole(tmp_path / "out")
    assert offline_status(config).done == 2
    assert run(config, engine=engine, workers=1).to_dict() == whole.to_dict()


def test_output_that_cannot_be_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = classification(tmp_path, shards=1, output=str(tmp_path / "part-0.jsonl" / "out"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["offline", "run", str(tmp_path / "config.json")]) == 1
    assert "cannot be written: Not a directory: make room or choose another output" in capsys.readouterr().err
