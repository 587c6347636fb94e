"""Clocks that are set: a live run is never taken over by a clock alone, and what was deleted just now can come back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from valor_gpu.errors import LeaseError
from valor_gpu.store import Feedback, Store, StoredRow, StoredScore, leases
from valor_gpu.store.edits import edit_run, edits_of
from valor_gpu.store.progress import RunProgress, keep, progress_of

DAY, YEAR = 86_400.0, 365 * 86_400.0
JUMPS = (-10 * YEAR, -DAY, -120.0, 120.0, DAY, 10 * YEAR)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s.sqlite") as opened:
        yield opened


class Clock:
    """A clock that tests set; the monotonic one goes on beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = self.passed = 0.0
        real, monotonic = time.time, time.monotonic
        monkeypatch.setattr("time.time", lambda: real() + self.ahead + self.passed)
        monkeypatch.setattr("valor_gpu.store.deletions.time.monotonic", lambda: monotonic() + self.passed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def lease_of(store: Store, number: int, where: str, pid: int, started: str) -> None:
    with store._database.write() as connection:
        values = (number, "old", pid, started, where, time.time())
        connection.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?)", values)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_live_process_of_this_machine_keeps_its_run(store: Store, clock: Clock, jump: float) -> None:
    run = store.create_run("r", {})
    parent = os.getppid()
    lease_of(store, run._number, leases.machine(), parent, leases.start_time(parent) or "")
    run.delete()
    clock.ahead = jump
    with pytest.raises(LeaseError, match=f"is worked on by process {parent}"), run.lease():
        pass
    with pytest.raises(LeaseError, match="is worked on by"):
        run.add_rows([StoredRow(1, "a", {})])
    clock.passed = 1000.0
    assert store.purge(60) == 0 and store.run(run.id).state == "draft"


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("lives", [True, False])
def test_an_owner_that_cannot_be_looked_up_is_waited_for(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, jump: float, lives: bool
) -> None:
    """One that lives sends a heartbeat by the new clock meanwhile; one that is gone is replaced."""
    run = store.create_run("r", {})
    lease_of(store, run._number, "another container", 7, "1")
    clock.ahead = jump
    wait = threading.Event.wait

    def beat(event: threading.Event, seconds: float | None = None) -> bool:
        if seconds != leases.WATCH:
            return wait(event, seconds)
        if lives:
            with store._database.write() as connection:
                connection.execute("UPDATE leases SET heartbeat = ?", (time.time(),))
        return False

    monkeypatch.setattr(threading.Event, "wait", beat)
    if lives:
        with pytest.raises(LeaseError, match="is worked on by process 7 of another machine or container"), run.lease():
            pass
        assert run.state == "draft"
    else:
        with run.lease() as lease:
            assert lease.taken_over and run.add_rows([StoredRow(1, "a", {})]) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_process_that_is_gone_is_replaced_whatever_the_clock_says(store: Store, clock: Clock, jump: float) -> None:
    run = store.create_run("r", {})
    lease_of(store, run._number, leases.machine(), 2**22 + 1, "1")
    clock.ahead = jump
    assert store.owner(run) is None
    with run.lease() as lease:
        assert lease.taken_over


@pytest.mark.parametrize("jump", JUMPS)
def test_a_run_goes_on_through_a_jump(store: Store, clock: Clock, jump: float) -> None:
    run = store.create_run("first", {})
    with run.lease() as lease:
        run.add_rows([StoredRow(1, "a", {})])
        clock.ahead = jump
        lease.renew()
        run.add_rows([StoredRow(2, "b", {})])
        run.add_scores([StoredScore(n, "m", 0, 1.0) for n in (1, 2)])
        keep(run, RunProgress(phase="ending", at=time.time()))
        run.finish("finished", {})
    later = store.create_run("second", {})
    assert [each.name for each in store.runs()] == ["second", "first"] and (later.created > run.created) == (jump > 0)
    assert [each.name for each in store.heads()] == ["second", "first"]
    ended = store.finished_at(run)
    assert ended is not None and (ended > run.created) == (jump > 0)
    assert run.summary()["m"].n == 2 and (progress_of(run) or RunProgress()).phase == "ending"
    run.add_feedback(Feedback(1, "m", "ana", 2.0))
    edit_run(run, note="one")
    seen = edits_of(run)
    clock.ahead = -jump
    edit_run(run, note="two", edited=seen.edited)
    assert (edits_of(run).edited or 0.0) > (seen.edited or 0.0) and store.run("first").id == run.id


# ------------------------------------------------------------------------------------------------------- deletion


@pytest.mark.parametrize("jump", [120.0, DAY, 10 * YEAR])
def test_a_clock_that_is_set_forward_leaves_time_to_undo(store: Store, clock: Clock, jump: float) -> None:
    run = store.create_run("r", {})
    assert store.purge(60) == 0  # as Studio looks every few seconds
    run.delete()
    clock.ahead = jump
    clock.passed = 30.0
    assert store.purge(60) == 0
    run.undelete()
    assert [each.id for each in store.runs()] == [run.id]
    run.delete()
    clock.passed = 45.0
    assert store.purge(60) == 0  # the mark is a new one
    clock.passed = 106.0
    assert store.purge(60) == 1


@pytest.mark.parametrize("jump", [-120.0, -DAY, -10 * YEAR])
def test_a_clock_that_is_set_back_does_not_keep_a_deleted_run_for_years(
    store: Store, clock: Clock, jump: float
) -> None:
    store.create_run("r", {}).delete()
    assert store.purge(60) == 0
    clock.ahead = jump
    clock.passed = 59.0
    assert store.purge(60) == 0
    clock.passed = 61.0
    assert store.purge(60) == 1


def test_an_old_mark_is_purged_at_the_first_look(store: Store, clock: Clock) -> None:
    store.create_run("r", {}).delete()
    clock.passed = 61.0
    with Store(store.path) as other:
        assert other.purge(60) == 1
    assert store.purge(60) == 0 and store.runs(deleted=True) == []


def test_a_mark_that_is_taken_away_between_look_and_purge_counts(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.create_run("r", {})
    run.delete()
    clock.passed = 61.0
    write: Callable[..., object] = store._database.write

    def undone(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        run.undelete()
        return write(*arguments, **options)

    monkeypatch.setattr(store._database, "write", undone)
    assert store.purge(60) == 0 and store.run(run.id).state == "draft"
