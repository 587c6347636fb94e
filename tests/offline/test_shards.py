"""Which files are shards, and what two configurations leave in one output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.offline.shard_data import classification, classification_rows, write_jsonl
from valor_gpu.cli import main
from valor_gpu.errors import InputError
from valor_gpu.offline import OfflineConfig, OfflineResult, run_offline
from valor_gpu.offline.shards import Shard, find_shards


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


def test_what_is_no_file_is_a_shard_that_fails(tmp_path: Path) -> None:
    """None of them is left out in silence, and the pipe, which nobody writes to, is not waited for."""
    config = classification(tmp_path, shards=2)
    os.mkfifo(tmp_path / "part-2.jsonl")
    (tmp_path / "part-3.jsonl").mkdir()  # as Spark writes a table
    (tmp_path / "part-4.jsonl").symlink_to("/dev/null")
    (tmp_path / "part-5.jsonl").symlink_to("part-5.jsonl")
    causes = {failure.name.removeprefix(f"{tmp_path}/"): failure.error for failure in run(config).failures}
    assert causes.keys() == {f"part-{part}.jsonl" for part in range(2, 6)}
    for part, what in ((2, "a pipe"), (3, "a folder"), (4, "a device or socket")):
        name = f"part-{part}.jsonl"
        assert causes[name] == f"{tmp_path}/{name} must be a regular file but is {what}"
    assert "Too many levels of symbolic links" in causes["part-5.jsonl"]


def test_folders_beside_files_and_alone(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=2)
    config["data"]["format"] = "jsonl"
    (tmp_path / "data").mkdir()
    for part in (0, 1):
        (tmp_path / f"part-{part}.jsonl").rename(tmp_path / "data" / f"part-{part}.jsonl")
    (tmp_path / "data/inner").mkdir()
    for files in ("data/*", "**/*.jsonl", "data/**"):
        config["data"]["files"] = str(tmp_path / files)
        result = run(config)
        assert (result.counts["counted"], result.failures) == (2, ())
    for files in ("data", "dat[a]"):
        config["data"]["files"] = str(tmp_path / files)
        with pytest.raises(InputError, match=r"data\.files must match .* matches a folder: write .*/data/\*$"):
            run(config)


def test_links_that_lead_back(tmp_path: Path) -> None:
    config = classification(tmp_path, shards=2, duplicates="count")
    (tmp_path / "inner/deep").mkdir(parents=True)
    (tmp_path / "part-1.jsonl").rename(tmp_path / "inner/deep/part-1.jsonl")
    for number in range(3):  # glob would find 3^40 folders
        (tmp_path / "inner" / f"loop-{number}").symlink_to(tmp_path)
    (tmp_path / "inner/self").symlink_to("self")
    config["data"]["files"] = str(tmp_path / "**/**/part-*.jsonl")
    assert [Path(shard.name).relative_to(tmp_path).as_posix() for shard in find_shards(
        OfflineConfig.from_dict(config).data)] == ["inner/deep/part-1.jsonl", "part-0.jsonl"]  # fmt: skip


def test_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path, shards=1)
    (tmp_path / "closed").mkdir()
    config["data"]["files"] = str(tmp_path / "**/part-*.jsonl")
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(
        InputError, match=r"closed must be a folder that can be read, for \*\*, but: .*Permission denied"
    ):
        run(config)


NAMES = [
    b"new\nline.jsonl", b"q\"uo'te.jsonl", b"-dash.jsonl", b"no-\xff\xfe-utf8.jsonl", 249 * b"x" + b".jsonl",
    b"*glob?[a].jsonl", b"\x1b[31m.jsonl", b"{0}%s$HOME.jsonl", "\u202e.jsonl".encode(),
]  # fmt: skip


@pytest.mark.parametrize("output", [b"out", b"o\n'\"*[a]-\xff"])
def test_hostile_names(tmp_path: Path, output: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    config = classification(tmp_path, shards=len(NAMES), output=os.path.join(tmp_path, os.fsdecode(output)))
    names = [os.path.join(tmp_path, os.fsdecode(name)) for name in NAMES]
    for part, name in enumerate(names):
        (tmp_path / f"part-{part}.jsonl").rename(name)
    with open(names[-1], "w") as file:
        file.write("{")
    config["data"]["files"] = str(tmp_path / "*.jsonl")
    first = run(config)
    assert {shard.name for shard in find_shards(OfflineConfig.from_dict(config).data)} == set(names)
    assert [failure.name for failure in first.failures] == names[-1:]
    assert run(config).to_dict() == first.to_dict()
    assert json.loads(Path(config["output"], "result.json").read_bytes().decode("utf-8", "surrogateescape"))
    config["data"]["files"] = names[5]  # a pattern that is the name of a file is that file
    assert run(config).counts["shards"] == 1
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "data": {**config["data"], "files": str(tmp_path / "*.jsonl")}}))
    assert main(["offline", "run", str(path)]) == 1
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert main(["offline", "status", str(path)]) == 0


def test_file_that_vanishes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path, shards=2)
    content = Shard.content

    def vanish(shard: Shard) -> str:
        found = content(shard)
        if shard.name.endswith("part-1.jsonl"):
            os.unlink(shard.name)
        return found

    monkeypatch.setattr(Shard, "content", vanish)
    result = run(config)
    assert [failure.name for failure in result.failures] == [str(tmp_path / "part-1.jsonl")]
    assert "No such file or directory" in result.failures[0].error
    assert result.counts["counted"] == 1


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
