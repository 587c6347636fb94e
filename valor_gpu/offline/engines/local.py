"""One shard after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.engines import pool
from valor_gpu.offline.long_shards import AtWork, LongShards, watched
from valor_gpu.offline.records import Record, StateFolder
from valor_gpu.offline.shards import Shard
from valor_gpu.offline.work import process_shard


def run(
    config: OfflineConfig,
    folder: StateFolder,
    shards: Sequence[Shard],
    workers: int | None,
    done: Callable[[Record], None],
) -> bool:
    """See :class:`valor_gpu.offline.engines.Engine`; ``workers`` is not used.

    With ``shard_timeout`` the shards go to one process of the pool: only a process can be ended whatever it does.
    """
    if config.shard_timeout is not None:
        return pool.run(config, folder, shards, 1, done)
    looks, at_work = LongShards(None), AtWork()
    with watched(looks, at_work):
        for shard in shards:
            with at_work.on(shard):
                record = evaluate(config, folder, shard)
            looks.ended(record.seconds)
            done(record)
    return True


def evaluate(config: OfflineConfig, folder: StateFolder, shard: Shard) -> Record:
    """Evaluates one shard and writes what came of it."""
    record, states = process_shard(config, shard, folder.known)
    folder.save(shard, record, states)
    return record
