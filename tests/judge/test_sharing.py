"""A cache that is shared, that fails, and that outlives its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.judge.loops import VirtualLoop
from valor_gpu.errors import InputError
from valor_gpu.judge import CallableJudge, JudgeCache, Limits, Question, Reply, question_metric, run_judge, stream_judge
from valor_gpu.judge.protocol import Judgement, Status
from valor_gpu.judge.replies import SOON, Replies
from valor_gpu.judge.room import PLACE, Place, Room

KEY = bytes(32)
FOLDER = Path(__file__).parents[2]


def about(row: Any) -> Question:
    return Question([{"role": "user", "content": str(row)}], float)


RATE = question_metric("q", about, 0, 1e9)


def named(judge: Any) -> CallableJudge:
    return CallableJudge(judge, name="j")


def test_leases_hold_off_others_until_they_end_or_the_reply_comes(tmp_path: Path) -> None:
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        mine, other = f"{JudgeCache.process()} a", f"{JudgeCache.process()} b"
        assert cache.lease(KEY, mine, 60.0) and cache.lease(KEY, mine, 60.0) and not cache.lease(KEY, other, 60.0)
        cache.release(mine)
        assert cache.lease(KEY, other, -1.0) and cache.lease(KEY, mine, -1.0)  # one that has ended counts for nothing
        cache.renew(mine, 60.0)
        assert not cache.lease(KEY, other, 60.0)
        cache.put(KEY, Reply("4"))
        assert not cache.lease(KEY, other, 60.0) and cache.lease(KEY, other, 60.0, again=True)
        cache.release(other, KEY)
        cache.discard(KEY)
        assert cache.get(KEY) is None and cache.lease(KEY, mine, 60.0)


def test_a_lease_of_a_clock_that_was_set_back_counts_for_nothing(tmp_path: Path) -> None:
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        assert cache.lease(KEY, "elsewhere 1 a", 5 * 3600.0)
        assert cache.lease(KEY, "elsewhere 2 b", 15.0) and not cache.lease(KEY, "elsewhere 3 c", 15.0)


def test_the_lease_of_a_process_that_has_died_counts_for_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here, own = JudgeCache.process().split(" ")
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        assert int(own) == os.getpid()
        assert cache.lease(KEY, f"{here} {ended.pid} x", 60.0) and cache.lease(KEY, f"{here} {own} y", 60.0)
        other = bytes(31) + b"x"
        assert cache.lease(other, f"elsewhere {ended.pid} x", 60.0)  # of another container: nobody here can tell
        assert not cache.lease(other, f"{here} {own} y", 60.0)


def test_files_of_before_there_were_leases_are_used(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with JudgeCache(path) as cache:
        cache.put(KEY, Reply("4"))
        cache._open().execute("DROP TABLE leases")
    with JudgeCache(path) as cache:
        assert cache.get(KEY) == Reply("4") and cache.lease(bytes(31) + b"x", "here 1 a", 60.0)


PROGRAM = """
import sys, time
from valor_gpu.judge import CallableJudge, Limits, Question, question_metric, run_judge
async def judge(messages):
    with open(sys.argv[2], "a") as file:
        file.write(messages[0]["content"] + "\\n")
    await asyncio.sleep(0.004)
    return "4"
import asyncio
from valor_gpu.judge import replies
replies.LEASE = 3000.0  # whoever waited for a lease of the dead would wait for ever
rate = question_metric("q", lambda row: Question([{"role": "user", "content": str(row)}], float), 0, 9)
print("ready", flush=True)
sys.stdin.readline()
run = run_judge(range(int(sys.argv[3])), [rate], CallableJudge(judge, name="j"), cache=sys.argv[1],
                limits=Limits(concurrency=8), progress=lambda counts: print(counts.done, flush=True))
print(run.scores("q") == [4.0] * int(sys.argv[3]), run.cache_error)
"""


def start(folder: Path, rows: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(folder / "c.sqlite"), str(folder / "asked"), str(rows)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=FOLDER)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_equal_questions_of_three_processes_are_asked_once(tmp_path: Path) -> None:
    processes = [start(tmp_path, 600) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[0].splitlines()[-1] for process in processes] == ["True None"] * 3
    asked = Counter((tmp_path / "asked").read_text().split())
    assert len(asked) == 600 and asked.total() <= 630


def test_after_a_kill_no_kept_row_is_asked_again_and_nobody_waits_for_the_dead(tmp_path: Path) -> None:
    process = start(tmp_path, 300)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.strip() == "100":
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        kept = len(cache)
    before = Counter((tmp_path / "asked").read_text().split())
    assert 100 <= kept <= before.total() <= kept + 8
    process = start(tmp_path, 300)
    assert process.communicate("go\n")[0].splitlines()[-1] == "True None"
    after = Counter((tmp_path / "asked").read_text().split())
    assert len(after) == 300 and after.total() - before.total() == 300 - kept
    assert sum(times == 2 for times in after.values()) <= 8  # what was in flight


def failing(error: Exception, names: tuple[str, ...], after: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets methods of the cache fail from their call number ``after`` on."""
    calls = [0]
    for name in names:
        whole = getattr(JudgeCache, name)

        def fail(self: Any, *arguments: Any, whole: Any = whole, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] > after:
                raise error
            return whole(self, *arguments, **options)

        monkeypatch.setattr(JudgeCache, name, fail)
    return calls


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (sqlite3.OperationalError("database or disk is full"), ("put", "lease", "renew", "release")),
        (sqlite3.OperationalError("database is locked"), ("put", "lease", "get")),
        (sqlite3.DatabaseError("database disk image is malformed"), ("get", "put", "lease", "release", "discard")),
        (OSError("gone"), ("get",)),
        (InputError("cache must be a file"), ("put",)),
    ],
    ids=["full", "locked", "malformed", "gone", "input"],
)
def test_a_cache_that_fails_costs_the_keeping_and_never_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, names: tuple[str, ...]
) -> None:
    asked: list[str] = []

    def judge(messages: Any) -> str:
        asked.append(messages[0]["content"])
        return "4"

    failing(error, names, 60, monkeypatch)
    with pytest.warns(UserWarning, match="the cache failed") as warned:
        run = run_judge(range(200), [RATE], named(judge), cache=tmp_path / "c.sqlite")
    assert run.scores("q") == [4.0] * 200 and len(asked) == 200 and len(warned) == 1
    assert run.cache_error is not None and str(error) in run.cache_error and "c.sqlite" in run.cache_error


def test_a_full_disk_costs_the_keeping(tmp_path: Path) -> None:
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        pages = cache._open().execute("PRAGMA page_count").fetchone()[0]
        cache._open().execute(f"PRAGMA max_page_count = {pages + 4}")  # as if the disk had no more room
        with pytest.warns(UserWarning, match="database or disk is full"):
            run = run_judge(range(300), [RATE], named(lambda messages: "4"), cache=cache)
        kept = len(cache)
        assert run.scores("q") == [4.0] * 300 and 0 < kept < 300
        assert run.cache_error is not None and "disk is full" in run.cache_error
    again = run_judge(range(300), [RATE], named(lambda messages: "4"), cache=tmp_path / "c.sqlite")
    assert again.summaries["q"].cached == kept and again.cache_error is None


def test_a_file_that_was_busy_once_gives_its_reply_at_the_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = JudgeCache.get, [0]
    run_judge([1], [RATE], named(lambda messages: "4"), cache=tmp_path / "c.sqlite")

    def get(self: JudgeCache, key: bytes) -> Reply | None:
        calls[0] += 1
        if calls[0] == 1:
            raise sqlite3.OperationalError("database is locked")
        return whole(self, key)

    monkeypatch.setattr(JudgeCache, "get", get)
    with pytest.warns(UserWarning, match="database is locked"):
        run = run_judge([1], [RATE], named(lambda messages: "5"), cache=tmp_path / "c.sqlite")
    assert run.scores("q") == [4.0] and run.summaries["q"].cached == 1 and calls == [2]


def test_one_failed_write_costs_one_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = JudgeCache.put, [0]

    def put(self: JudgeCache, key: bytes, reply: Reply) -> None:
        calls[0] += 1
        if calls[0] == 30:
            raise sqlite3.OperationalError("database or disk is full")
        whole(self, key, reply)

    monkeypatch.setattr(JudgeCache, "put", put)
    with pytest.warns(UserWarning, match="database or disk is full"):
        run = run_judge(range(50), [RATE], named(lambda messages: "4"), cache=tmp_path / "c.sqlite")
    assert run.scores("q") == [4.0] * 50
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        assert len(cache) == 49


def test_a_damaged_file_is_asked_around(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    run_judge(range(300), [RATE], named(lambda messages: "4"), cache=path)
    with JudgeCache(path) as cache:
        cache._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"\xff" * (len(content) - 12288)
    path.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="the cache failed"):
        run = run_judge(range(300), [RATE], named(lambda messages: "4"), cache=path)
    assert run.scores("q") == [4.0] * 300 and run.cache_error is not None


def test_a_writer_that_holds_the_file_costs_time_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with JudgeCache(path) as cache:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        ended, early = threading.Event(), []

        def commit() -> None:
            early.append(ended.is_set())
            other.execute("COMMIT")

        release = threading.Timer(0.5, commit)
        release.start()
        run = run_judge(range(8), [RATE], named(lambda messages: "4"), cache=cache)
        ended.set()
        release.join()
        other.close()
        assert run.scores("q") == [4.0] * 8 and len(cache) == 8 and run.cache_error is None and early == [False]


def expiry(cache: JudgeCache) -> float:
    [[expires]] = cache._open().execute("SELECT expires FROM leases").fetchall()
    return float(expires)


def test_leases_are_renewed_while_a_question_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.judge.replies.RENEWAL", 0.01)

    async def main() -> None:
        with JudgeCache(tmp_path / "c.sqlite") as cache:
            replies = Replies(cache)
            replies.start()
            assert await replies.find(KEY, lambda reply: pytest.fail("there is none"), lambda: False) is None
            for _ in range(3):
                before = expiry(cache)
                while expiry(cache) == before:
                    await asyncio.sleep(0.01)
                assert not cache.lease(KEY, "elsewhere 1 x", 60.0)
            await replies.stop()
            assert cache.lease(KEY, "elsewhere 1 x", 60.0)

    asyncio.run(main())


def test_rows_that_wait_for_another_process_take_its_reply(tmp_path: Path) -> None:
    with JudgeCache(tmp_path / "c.sqlite") as cache, JudgeCache(tmp_path / "c.sqlite") as other:
        asked: list[str] = []
        go = threading.Event()

        def judge(messages: Any) -> str:
            asked.append(messages[0]["content"])
            go.set()
            return "4"

        def slow(messages: Any) -> str:
            go.wait(120)
            return "5"

        first = stream_judge([1], [RATE], named(slow), cache=other)
        thread = threading.Thread(target=lambda: next(first))
        thread.start()
        while not cache._open().execute("SELECT count(*) FROM leases").fetchone()[0]:
            time.sleep(0.01)
        run = run_judge([1, 2], [RATE], named(judge), cache=cache, limits=Limits(concurrency=2))
        thread.join()
    assert run.scores("q") == [5.0, 4.0] and asked == ["2"]


@pytest.mark.parametrize("damage", ["'{}'", "'no JSON'", "x'ff'"])
def test_a_damaged_reply_is_asked_for_again_and_not_waited_for(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.sqlite"
    run_judge(range(5), [RATE], named(lambda messages: "4"), cache=path)
    for many in (1, 5):  # five failures in a row end the reading of the file
        with JudgeCache(path) as cache:
            cache._open().execute(
                f"UPDATE replies SET reply = {damage} WHERE key IN (SELECT key FROM replies LIMIT {many})"
            )
        with pytest.warns(UserWarning, match="the cache failed"):
            run = run_judge(range(5), [RATE], named(lambda messages: "4"), cache=path)
        assert run.scores("q") == [4.0] * 5 and run.summaries["q"].attempts == many


def test_rows_that_wait_long_for_another_process_make_room(tmp_path: Path) -> None:
    """It may ask their questions at the end of its run, since they fail."""
    room = Room(4)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        PLACE.set(Place(room))
        finding = asyncio.ensure_future(replies.find(KEY, lambda reply: Judgement(4, Status.OK, reply), lambda: False))
        await asyncio.sleep(0.9 * SOON)
        assert room.held == 0
        await asyncio.sleep(0.4 * SOON)
        assert room.held == 1
        looks.clear()
        await asyncio.sleep(60.0)
        assert len(looks) <= 25 and loop.time() > 60.0
        theirs.put(KEY, Reply("4"))
        found = await finding
        assert found is not None and found.ok and room.held == 0

    looks: list[bytes] = []
    with JudgeCache(tmp_path / "c.sqlite") as mine, JudgeCache(tmp_path / "c.sqlite") as theirs:
        assert theirs.lease(KEY, f"{JudgeCache.process()} b", 15.0)
        real = mine.get
        mine.get = lambda key: (looks.append(key), real(key))[1]  # type: ignore[method-assign]
        replies = Replies(mine)
        loop = VirtualLoop()
        loop.run_until_complete(main())
        loop.close()
