"""Ray Data: the same numbers as one process, with a killed actor, and shards that fail and that kill theirs."""

from __future__ import annotations

import gc
import importlib.util
import os
from pathlib import Path

import pytest

from tests.offline.test_pool import run, slow, workers_at_work
from valor_gpu.errors import MissingExtraError
from valor_gpu.offline import run_offline
from valor_gpu.offline.engines import ray_data

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray", "ignore::FutureWarning:ray", "ignore::ResourceWarning")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: make ray")
def test_two_actors_one_of_which_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    config = {**slow(tmp_path, deadly=7), "retries": 1}  # 20 to 24 rows in updates of 16: part-3 has 7 at its end
    (tmp_path / "part-1.jsonl").write_text("{")
    (tmp_path / "kill-1").touch()
    result = run(config, engine="ray", workers=2)
    assert not (tmp_path / "kill-1").exists()
    assert len(workers_at_work(tmp_path)) >= 2
    assert result.counts == {"shards": 5, "counted": 3, "failed": 2, "duplicates": 0, "rows": 66, "bad_rows": 0}
    assert result.failures[1].error == f"{tmp_path}/part-3.jsonl: its actor died, 2 times"
    sound = [str(tmp_path / f"part-{part}.jsonl") for part in (0, 2, 4)]
    alone = run({**config, "data": {**config["data"], "files": sound}, "output": str(tmp_path / "alone")})
    assert result.to_dict()["results"] == alone.to_dict()["results"]
    (tmp_path / "part-3.jsonl").unlink()
    told: list[int] = []
    run(config, engine="ray", workers=2, progress=lambda done, total, record: told.append(done))
    assert told == [4]  # the shard that failed
    gc.collect()  # what Ray has left open is found here, not in whichever test runs then


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray", "ignore::FutureWarning:ray", "ignore::ResourceWarning")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: make ray")
def test_shard_that_hangs_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    config = {**slow(tmp_path), "retries": 0, "shard_timeout": 45}
    alone = run({**config, "shard_timeout": None, "output": str(tmp_path / "alone")})
    (tmp_path / "asleep-1").touch()
    result = run(config, engine="ray", workers=1)
    (failure,) = result.failures
    assert (
        failure.error
        == f"{failure.name} took longer than shard_timeout, 45 s, and was ended: the next run tries it again"
    )
    assert result.counts["counted"] == 4
    assert run(config).to_dict() == alone.to_dict()
    gc.collect()


def test_folders_of_killed_drivers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_data, "_TEMPORARY", str(tmp_path))
    prefix = ray_data._prefix()
    dead, alive, foreign = f"{prefix}{2**22 + 5}-abc", f"{prefix}{os.getpid()}-abc", f"vg-ray-0-{2**22 + 5}-abc"
    for name in (dead, alive, foreign):
        (tmp_path / name / "session").mkdir(parents=True)
    ray_data._remove_left()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((alive, foreign))


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"engine ray needs ray\[data\]: pip install 'valor_gpu\[ray\]'"):
        run_offline(slow(tmp_path), "ray")
