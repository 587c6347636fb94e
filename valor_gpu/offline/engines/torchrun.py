"""The ranks of ``torchrun``: each evaluates every n-th shard and writes to disk; rank 0 merges.

The folder of states must be one that all ranks see. Nothing but a barrier goes between the ranks: it has no time limit
that a slow rank could meet, since the agent of torchrun ends all ranks when one dies.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.distributed as dist

from valor_gpu.errors import InputError, ValorError
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.engines import local
from valor_gpu.offline.records import Record, StateFolder
from valor_gpu.offline.shards import Shard

_FOR_EVER = datetime.timedelta(days=365)


def share(shards: Sequence[Shard]) -> list[Shard]:
    """Every n-th shard.

    Raises:
        InputError: this process was not started by torchrun.
    """
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(f"engine torchrun must be started by torchrun but {', '.join(missing)} are not set")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return [shard for shard in shards if shard.number % world == rank]


def run(
    config: OfflineConfig,
    folder: StateFolder,
    shards: Sequence[Shard],
    workers: int | None,
    done: Callable[[Record], None],
) -> bool:
    """See :class:`valor_gpu.offline.engines.Engine`; ``workers`` is not used."""
    if config.device == "cuda":
        rank = int(os.environ.get("LOCAL_RANK", 0))
        torch.cuda.set_device(rank)
        config = replace(config, device=f"cuda:{rank}")  # also for a process that this one starts
    ours = not dist.is_initialized()
    if ours:
        dist.init_process_group("gloo", timeout=_FOR_EVER)
    group = dist.group.WORLD if ours else dist.new_group(backend="gloo", timeout=_FOR_EVER)
    try:
        _meet(group)  # before a rank writes: others may still look which shards are done
        local.run(config, folder, shards, None, done)
        _meet(group)
    finally:
        dist.destroy_process_group(None if ours else group)
    return os.environ["RANK"] == "0"


def _meet(group: dist.ProcessGroup | None) -> None:
    """Waits for the other ranks.

    Raises:
        ValorError: one of them has ended.
    """
    try:
        dist.barrier(group)
    except RuntimeError as error:  # of gloo, which knows nothing but that a connection was closed
        raise ValorError(
            "all ranks must end together but another one has ended, for which torchrun or its own message says why: run"
            f" again, which goes on from the shards that are done ({str(error).partition(chr(10))[0]:.120})"
        ) from error
