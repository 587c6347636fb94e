"""Runs one function in several gloo processes and gives back what each of them returned."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

WORLD = 3
COLLECTIVE_LIMIT = timedelta(seconds=90)  # a rank that waits for another one gives up after this; for busy machines
COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "gather",
)


def run_ranks(work: Callable[[int, int], Any], folder: Path, limit: float = 300) -> list[Any]:
    """``work(rank, WORLD)`` of every rank, in rank order.

    Args:
        work: a function of a module, so that it pickles.
        folder: an empty folder, where the ranks meet.
        limit: seconds after which the ranks are ended.

    Raises:
        AssertionError: a rank raised, or had not answered by then.
    """
    # The fork server imports torch and the tests once for all ranks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.contract_ranks"])
    pipes = [context.Pipe() for _ in range(WORLD)]
    ranks = [
        context.Process(target=_rank, args=(work, rank, str(folder / "meeting"), theirs), daemon=True)
        for rank, (_, theirs) in enumerate(pipes)
    ]
    try:
        for process in ranks:
            process.start()
        answers = []
        for rank, (ours, _) in enumerate(pipes):
            assert ours.poll(limit), f"rank {rank} did not answer within {limit} s"
            answers.append(ours.recv())
    finally:
        for process in ranks:
            process.kill()
            process.join()
    failures = [f"rank {rank} raised\n{answer}" for rank, (fine, answer) in enumerate(answers) if not fine]
    assert not failures, "\n".join(failures)
    return [answer for _, answer in answers]


def _rank(work: Callable[[int, int], Any], rank: int, meeting: str, parent: Connection) -> None:
    """Answers, then waits to be ended: a rank that leaves early breaks the connections of the others."""
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=WORLD, timeout=COLLECTIVE_LIMIT
        )
        parent.send((True, work(rank, WORLD)))
    except BaseException:
        parent.send((False, traceback.format_exc()))
    parent.recv()


class Collectives:
    """Counts the collectives called while the context is open."""

    def __enter__(self) -> Collectives:
        self.count = 0
        self._real = {name: getattr(dist, name) for name in COLLECTIVES}
        for name, function in self._real.items():
            setattr(dist, name, self._counted(function))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._real.items():
            setattr(dist, name, function)

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return function(*args, **kwargs)

        return call
