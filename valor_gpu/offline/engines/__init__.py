"""Engines: what evaluates the shards that are not done yet, by name. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Protocol

from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.records import Record, StateFolder
from valor_gpu.offline.shards import Shard

ENGINES = ("local", "pool", "torchrun", "ray")


class Engine(Protocol):
    """Leaves a record on disk of every shard, and states of those that are done."""

    def __call__(
        self,
        config: OfflineConfig,
        folder: StateFolder,
        shards: Sequence[Shard],
        workers: int | None,
        done: Callable[[Record], None],
    ) -> bool:
        """Evaluates shards.

        Args:
            config: metrics and data.
            folder: where records and states are kept.
            shards: those that this process, with the workers that it starts, is to evaluate.
            workers: how many processes.
            done: told of each shard when its record is on disk.

        Returns:
            Whether this process is the one that merges.
        """
        ...


def share_of(name: str, shards: Sequence[Shard]) -> list[Shard]:
    """The shards of this process: all, or those of a rank of torchrun, which need not know how the others went.

    Raises:
        InputError: the engine is torchrun, but this process was not started by it.
    """
    if name != "torchrun":
        return list(shards)
    from valor_gpu.offline.engines import torchrun

    return torchrun.share(shards)


def engine_named(name: str) -> Engine:
    """The engine of a name."""
    module = importlib.import_module(f"{__name__}.{name if name != 'ray' else 'ray_data'}")
    engine: Engine = module.run
    return engine
