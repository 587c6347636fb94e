"""Deleted runs: what goes with them, what stays, and that a killed server leaves nothing behind."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import ChatServer
from tests.web.pages import client, send, text_of
from tests.web.work import Pace, add_run, add_upload, scores, wait
from valor_gpu.evaluation.run import evaluate
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.store import Store
from valor_gpu.web.processes import jobs
from valor_gpu.web.runs.purging import KIND, Sweeper, purge
from valor_gpu.web.wizard import drafts

WORD = "xylophonist"


def told(path: Path) -> bytes:
    """Everything that the files of a store hold."""
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))


def rows_of(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    connection.close()
    return int(found)


def uploaded(store: Store, uploads: Path, word: str = WORD) -> Any:
    file = uploads.parent / "own.csv"
    file.write_text(f"question,answer\nWho plays?,The {word}.\nWho else?,Nobody.\n")
    with file.open("rb") as content:
        return add_upload(store, uploads, "own.csv", content)


def scored(store: Store, data: Any, name: str = "first", **more: Any) -> str:
    found = evaluate(
        evaluation_name=name, data=data.source, metrics_list=["gpt_coherence"], store=store, **more
    )  # fmt: skip
    return str(found.run_id)


def judge(messages: Any) -> str:
    return '{"reason": "It is so.", "score": 4}'


def test_all_that_belongs_to_a_run_goes_with_it(path: Path, tmp_path: Path) -> None:
    uploads = path.with_suffix(".uploads")
    with Store(path) as store:
        data = uploaded(store, uploads)
        uid = scored(store, data, judge=judge)
        assert store.run(uid).search(WORD).rows
        jobs.log_path(store, uid).write_text("said")
        for ending in ("", "-wal"):
            Path(f"{path}.{uid}.replies{ending}").write_bytes(b"replies")
        assert WORD.encode() in told(path)
        browser = client(path)
        send(browser, f"/runs/{uid}/delete")
        assert purge(store, uploads) == 0
        assert Path(data.source).is_file()
        assert text_of(send(browser, f"/runs/{uid}/undo")).count("first")
        assert purge(store, uploads, 0) == 0
        assert store.views.list(KIND) == []
        send(browser, f"/runs/{uid}/delete")
        assert purge(store, uploads, 0) == 1
        assert store.datasets.list() == []
        assert list(uploads.iterdir()) == []
        assert store.views.list(KIND) == []
        assert [each.name for each in path.parent.glob(f"*{uid}*")] == []
        for table in ("runs", "rows", "scores", "feedback"):
            assert rows_of(path, table) == 0
        assert WORD.encode() not in told(path)  # neither in a free page nor in the index of words


def test_what_others_need_stays(path: Path) -> None:
    uploads = path.with_suffix(".uploads")
    with Store(path) as store:
        data = uploaded(store, uploads)
        first, second = (scored(store, data, name, judge=judge) for name in ("first", "second"))
        draft = drafts.save(store, drafts.Draft(), data=data.hash)
        store.run(first).delete()
        assert purge(store, uploads, 0) == 1
        assert store.run(second).search(WORD).rows
        store.run(second).delete()
        assert purge(store, uploads, 0) == 1
        assert Path(data.source).is_file()  # the draft reads it
        store.views.delete(drafts.KIND, draft.id)
        third = scored(store, data, "third", judge=judge)
        store.run(third).delete()
        purge(store, uploads, 0)
        assert not Path(data.source).exists()


def test_a_file_of_the_user_is_never_taken(path: Path) -> None:
    with Store(path) as store:
        own = store.datasets.save("ab", "rows.csv", ["question"], 24, str(path.parent / "rows.csv"))
        run = store.create_run("x", {}, None, own.hash)
        run.delete()
        assert purge(store, path.with_suffix(".uploads"), 0) == 1
    assert (path.parent / "rows.csv").is_file()


def test_words_of_other_runs_are_still_found(path: Path) -> None:
    uploads = path.with_suffix(".uploads")
    with Store(path) as store:
        gone = scored(store, uploaded(store, uploads), judge=judge)
        stays = scored(store, uploaded(store, uploads, "drummer"), "second", judge=judge)
        store.run(gone).delete()
        purge(store, uploads, 0)
        assert [row.number for row in store.run(stays).search("drummer").rows] == [1]
        assert WORD.encode() not in told(path)


def test_own_replies_leave_the_cache_and_shared_ones_stay(path: Path, server: ChatServer) -> None:
    uploads, cache = path.with_suffix(".uploads"), path.parent / "cache.sqlite"
    model = {"model": "stub", "base_url": server.url, "api_key_env": "STUDIO_TEST_KEY"}
    with Store(path) as store:
        small = uploaded(store, uploads)
        both = keep(store, uploads, "question,answer\nWho plays?,The xylophonist.\nWho now?,Somebody.\n")
        first = scored(store, small, model_config=model, cache=cache)
        second = scored(store, both, "second", model_config=model, cache=cache)
        with JudgeCache(cache) as opened:
            assert len(opened) == 3  # one question of both runs
        for uid, left in ((first, 2), (second, 0)):
            store.run(uid).delete()
            purge(store, uploads, 0)
            with JudgeCache(cache) as opened:
                assert len(opened) == left


def keep(store: Store, uploads: Path, text: str) -> Any:
    file = uploads.parent / "own.csv"
    file.write_text(text)
    with file.open("rb") as content:
        return add_upload(store, uploads, "own.csv", content)


def test_a_reply_that_no_run_noted_is_left_in_the_cache(tmp_path: Path) -> None:
    from valor_gpu.judge.protocol import Reply

    with JudgeCache(tmp_path / "c") as plain, JudgeCache(tmp_path / "c", "run") as opened:
        plain.put(b"1", Reply("4"))
        opened.put(b"2", Reply("5"))
        assert opened.get(b"1") == plain.get(b"1") != None  # noqa: E711
        assert opened.forget_run("run") == 1
        assert len(opened) == 1


def test_a_kill_between_store_and_files_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads = path.with_suffix(".uploads")
    with Store(path) as store:
        data = uploaded(store, uploads)
        uid = scored(store, data, judge=judge)
        jobs.log_path(store, uid).write_text("said")
        store.run(uid).delete()

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("valor_gpu.web.runs.purging._take_rest", killed)
            with pytest.raises(KeyboardInterrupt):
                purge(store, uploads, 0)
        assert Path(data.source).is_file()
        assert store.heads(deleted=True) == []
    with Store(path) as again:
        assert purge(again, uploads) == 0
        assert list(uploads.iterdir()) == []
        assert not jobs.log_path(again, uid).exists()


def test_a_server_that_starts_purges_what_was_deleted_before(path: Path) -> None:
    with Store(path) as store:
        uid = scored(store, uploaded(store, path.with_suffix(".uploads")), judge=judge)
        store.run(uid).delete()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET deleted = deleted - 61")
    connection.commit()
    connection.close()
    code = "import sys; from valor_gpu.web.server import serve; serve(sys.argv[1], port=0)"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.DEVNULL) as serving:
        try:
            wait(lambda: rows_of(path, "runs") == 0 and not list(path.with_suffix(".uploads").iterdir()))
        finally:
            serving.kill()


def test_the_sweeper_goes_on_after_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads, seen = path.with_suffix(".uploads"), []

    def once(store: Store, folder: Path) -> None:
        seen.append(time.monotonic())
        if len(seen) == 1:
            raise OSError("the disk is full")

    monkeypatch.setattr("valor_gpu.web.runs.purging.purge", once)
    with Store(path) as store, Sweeper(store, uploads, 0.01):
        wait(lambda: len(seen) >= 3)


def test_deleting_a_run_that_goes_on_cancels_it(path: Path, server: ChatServer, pace: Pace) -> None:
    uid = add_run(path, server)
    pace.allow(3)
    with Store(path) as store:
        jobs.start(store, uid)
        wait(lambda: scores(store.run(uid)) >= 2)
        assert "Deleted numbers." in text_of(send(client(path), f"/runs/{uid}/delete"))
        wait(lambda: jobs.state_of(store, store.run(uid)) == "stopped")
        wait(lambda: store.views.list(jobs.JOB) == [])
        assert purge(store, path.with_suffix(".uploads"), 0) == 1
        assert not jobs.log_path(store, uid).exists()
