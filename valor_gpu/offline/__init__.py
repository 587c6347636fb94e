"""Evaluation of data in shards, on one process, a local pool, torchrun or Ray Data, by states on disk.

Every shard (one file, or one pair of files) becomes the states of all metrics, written to disk in one step under the
hash of its content. States are merged in the order of the shards by a tree whose form their number alone decides, so
that every engine, number of workers, stop and restart gives the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.offline.config import OfflineConfig, load_offline_config
    from valor_gpu.offline.outcome import OfflineResult, OfflineStatus
    from valor_gpu.offline.run import offline_status, run_offline

__all__ = [
    "OfflineConfig",
    "OfflineResult",
    "OfflineStatus",
    "load_offline_config",
    "offline_status",
    "run_offline",
]

_HOMES = {
    "config": ("OfflineConfig", "load_offline_config"),
    "outcome": ("OfflineResult", "OfflineStatus"),
    "run": ("offline_status", "run_offline"),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
