"""Which files are shards, and what two configurations leave in one output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.offline.shard_data import classification, classification_rows, write_jsonl
from valor_gpu.errors import InputError
from valor_gpu.offline import OfflineConfig, OfflineResult, run_offline
from valor_gpu.offline.shards import find_shards


def run(config: dict[str, Any]) -> OfflineResult:
    result = run_offline(config)
    assert result is not None
    return result


def every_json(folder: Path, **more: Any) -> dict[str, Any]:
    """Shards that a pattern finds that matches states and results too."""
    config = classification(folder, shards=3, **more)
    for path in folder.glob("part-*.jsonl"):
        path.rename(path.with_suffix(".json"))
    config["data"] |= {"files": str(folder / "**/*.json"), "format": "jsonl"}
    return config


@pytest.mark.parametrize("output", ["out", "."])
def test_pattern_that_matches_the_output(tmp_path: Path, output: str) -> None:
    config = every_json(tmp_path, output=str(tmp_path / output))
    other = {**config, "output": str(tmp_path / "other")}
    first = run(config).to_dict()
    assert first["counts"]["counted"] == first["counts"]["shards"] == 3
    assert run(config).to_dict() == run(other).to_dict() == first


def test_file_of_the_name_of_a_result_is_a_shard(tmp_path: Path) -> None:
    config = every_json(tmp_path)
    (tmp_path / "part-1.json").rename(tmp_path / "result.json")
    assert [Path(shard.name).name for shard in find_shards(OfflineConfig.from_dict(config).data)] == [
        "part-0.json", "part-2.json", "result.json",
    ]  # fmt: skip


def test_link_to_nothing_is_a_shard_that_fails(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=2)
    (tmp_path / "part-2.jsonl").symlink_to(tmp_path / "disk" / "part-2.jsonl")
    result = run(config)
    assert (result.counts["counted"], [failure.name for failure in result.failures]) == (
        2, [str(tmp_path / "part-2.jsonl")],
    )  # fmt: skip
    assert "No such file or directory" in result.failures[0].error


def test_file_with_and_without_compression(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=2)
    (tmp_path / "part-1.jsonl.gz").touch()
    config["data"] |= {"files": str(tmp_path / "part-*"), "format": "jsonl"}
    with pytest.raises(
        InputError, match=r"must match each file once but match .*part-1\.jsonl and .*part-1\.jsonl\.gz"
    ):
        run(config)


def test_two_configurations_with_one_output(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=3)
    fewer = {**config, "data": {**config["data"], "files": str(tmp_path / "part-[01].jsonl")}}
    single = {**config, "metrics": {"accuracy": config["metrics"]["accuracy"]}}
    results = [run(each) for each in (config, fewer, single)]
    kept = [path.read_bytes() for path in sorted((tmp_path / "out").glob("states-*/result-*.json"))]
    assert sorted(kept) == sorted(json.dumps(each.to_dict(), indent=1).encode() + b"\n" for each in results)
    last = json.loads((tmp_path / "out/result.json").read_text())
    assert last == results[2].to_dict()
    assert list(last["configuration"]["metrics"]) == ["accuracy"]
    assert last["configuration"]["data"]["files"] == [str(tmp_path / "part-*.jsonl")]


def test_shard_without_rows_is_named(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=2)
    (tmp_path / "part-1.jsonl").write_bytes(b"")
    write_jsonl(tmp_path / "part-0.jsonl", classification_rows(1, 4)[0])
    for _ in range(2):  # made, and from disk
        result = run(config)
        assert result.empty == (str(tmp_path / "part-1.jsonl"),)
        assert (result.counts["counted"], result.counts["rows"]) == (2, 4)
        assert f"no rows: {tmp_path}/part-1.jsonl" in str(result)
