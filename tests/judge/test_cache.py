"""The file of replies: keys, other processes, forks, other people's files."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.judge.cache import JudgeCache, cache_key
from valor_gpu.judge.protocol import Reply, Usage

REPLY = Reply("é\ud800 4", Usage(10, 3, 2), ({"4": -0.5}, {"\n": 0.0}), "stop", "m-1")


def key_of(**changes: Any) -> bytes:
    parts: dict[str, Any] = {"identity": {"model": "m"}, "messages": [{"role": "user", "content": "?"}], "schema": None}
    return cache_key(**parts | changes)


def test_the_key_moves_with_everything_that_decides_a_reply() -> None:
    keys = {
        key_of(),
        key_of(identity={"model": "n"}),
        key_of(messages=[{"role": "user", "content": "!"}]),
        key_of(messages=[{"role": "system", "content": "?"}]),
        key_of(schema={"type": "object"}),
        key_of(schema={"properties": {"reason": {}, "score": {}}}),
        key_of(schema={"properties": {"score": {}, "reason": {}}}),  # judges write in the order of the schema
        key_of(prompt="v2"),
        key_of(repeat=1),
    }
    assert len(keys) == 9 and key_of() == key_of(messages=[{"content": "?", "role": "user"}])
    # Fixed, since a file of an earlier release must keep its worth.
    assert key_of().hex() == "a66d646d2811e77ca4f72e22606b64f486b09473aacb3bac1a51c5b6048ce000"
    with pytest.raises(InputError, match="must hold JSON values"):
        key_of(messages=[{"content": {1, 2}}])


def test_replies_come_back_whole_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with JudgeCache(path) as cache:
        assert cache.get(bytes(32)) is None and cache
        cache.put(bytes(32), REPLY)
        assert cache.get(bytes(32)) == REPLY
        modes = {stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}
        assert modes == {0o600} and len(list(tmp_path.iterdir())) == 3  # with the log and its index
    again = JudgeCache(path)
    assert again.get(bytes(32)) == REPLY and len(again) == 1 and str(path) in repr(again)
    again.put(bytes(32), Reply("5"))
    assert again.get(bytes(32)) == Reply("5")
    again.clear()
    assert len(again) == 0
    again.close()
    assert len(again) == 0  # opens again
    again.close()


def another_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (another_database, "is another database"),
        (lambda path: path.write_bytes(b"no database at all" * 100), "not usable: file is not a database"),
        (lambda path: path.mkdir(), "not usable"),
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "c.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(InputError, match=message):
        JudgeCache(path)
    assert not path.is_file() or path.read_bytes() == before
    with pytest.raises(InputError, match="No such file"):
        JudgeCache(tmp_path / "no folder" / "c.sqlite")


def test_processes_share_a_file(tmp_path: Path) -> None:
    program = """
import sys
import time
from valor_gpu.judge import JudgeCache, Reply
Reply("loaded")
time.sleep(max(0.0, float(sys.argv[3]) - time.time()))  # so that all make the file at once
cache = JudgeCache(sys.argv[1])
for i in range(100):
    cache.put(int(sys.argv[2]).to_bytes(16, "big") + i.to_bytes(16, "big"), Reply(f"{sys.argv[2]} {i}"))
"""
    path, begin = tmp_path / "c.sqlite", time.time() + 0.5
    runs = [subprocess.Popen([sys.executable, "-c", program, str(path), str(n), str(begin)]) for n in range(4)]
    assert [run.wait() for run in runs] == [0, 0, 0, 0]
    with JudgeCache(path) as cache:
        assert len(cache) == 400
        assert cache.get((2).to_bytes(16, "big") + (99).to_bytes(16, "big")) == Reply("2 99")


def test_a_forked_process_opens_the_file_anew(tmp_path: Path) -> None:
    program = """
import os, sys
from valor_gpu.judge import JudgeCache, Reply
cache = JudgeCache(sys.argv[1])
cache.put(b"a" * 32, Reply("parent"))
parents = cache._connection
child = os.fork()
if child == 0:
    cache.put(b"b" * 32, Reply(cache.get(b"a" * 32).text + " and child"))
    os._exit(cache._connection is parents)
assert os.waitpid(child, 0)[1] == 0
print(cache.get(b"b" * 32).text)
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    command = [sys.executable, "-c", program, str(tmp_path / "c.sqlite")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "parent and child\n"


def test_a_second_cache_of_the_file_drops_no_locks_of_the_first(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys
from valor_gpu.judge import JudgeCache, Reply
one = JudgeCache(sys.argv[1])
one.put(b"a" * 32, Reply("one"))
two = JudgeCache(sys.argv[1])
code = "import sys; from valor_gpu.judge import JudgeCache; JudgeCache(sys.argv[1]).close()"
subprocess.run([sys.executable, "-c", code, sys.argv[1]], check=True)
one.put(b"b" * 32, Reply("two"))
os._exit(0)  # as a kill does; a close would save what was written to a deleted log
"""
    path = str(tmp_path / "c.sqlite")
    subprocess.run([sys.executable, "-c", program, path], check=True)
    with JudgeCache(path) as cache:
        assert len(cache) == 2


def test_what_a_forked_process_keeps_outlives_the_close_of_its_parent(tmp_path: Path) -> None:
    program = """
import os, sys
from valor_gpu.judge import JudgeCache, Reply
cache = JudgeCache(sys.argv[1])
cache.put(b"a" * 32, Reply("parent"))
ready, go = os.pipe(), os.pipe()
if not (child := os.fork()):
    cache.put(b"b" * 32, Reply("child"))
    os.write(ready[1], b".")
    os.read(go[0], 1)
    cache.put(b"c" * 32, Reply("child"))
    os._exit(0)
os.read(ready[0], 1)
cache.close()
os.write(go[1], b".")
assert os.waitpid(child, 0)[1] == 0
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    path = str(tmp_path / "c.sqlite")
    subprocess.run([sys.executable, "-c", program, path], check=True)
    with JudgeCache(path) as cache:
        assert len(cache) == 3
