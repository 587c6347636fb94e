"""A process of the pool: ``python -m valor_gpu.offline.engines.worker DESCRIPTOR``, a socket to its driver.

It reads a configuration, says that it is ready, then reads shards, each a line of JSON, and answers each by its record
when that is on disk, or by why it could not be written.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any

from valor_gpu.errors import StoreError
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.engines.local import evaluate
from valor_gpu.offline.long_shards import ended_by_itself
from valor_gpu.offline.records import StateFolder
from valor_gpu.offline.shards import Shard


def main(descriptor: int) -> None:
    """Evaluates what comes through the socket, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, which the driver acts on
    import torch

    torch.set_num_threads(1)
    with socket.socket(fileno=descriptor) as driver, driver.makefile("rb") as lines:
        about = json.loads(next(lines))
        if about["cpus"]:
            os.sched_setaffinity(0, about["cpus"])
        config = OfflineConfig.from_dict(about["config"])
        folder = StateFolder.of(config)
        _say(driver, "ready")
        for line in lines:
            _say(driver, _answer(config, folder, Shard.from_dict(json.loads(line))))


def _answer(config: OfflineConfig, folder: StateFolder, shard: Shard) -> dict[str, Any]:
    try:
        with ended_by_itself(config.shard_timeout):
            return evaluate(config, folder, shard).to_dict()
    except StoreError as error:  # a full disk is no shard's
        return {"unwritten": str(error)}


def _say(driver: socket.socket, message: Any) -> None:
    with contextlib.suppress(OSError):  # of a driver that is gone: what matters is on disk
        driver.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
