"""Runs an offline evaluation: shards that are not done yet to an engine, then states on disk to one result."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from valor_gpu import native
from valor_gpu.checks import check_choice, check_device, check_int, check_type
from valor_gpu.offline.collecting import collect
from valor_gpu.offline.config import OfflineConfig, load_offline_config
from valor_gpu.offline.engines import ENGINES, engine_named, share_of
from valor_gpu.offline.files import write_whole
from valor_gpu.offline.metrics import make_metrics
from valor_gpu.offline.outcome import OfflineResult, OfflineStatus
from valor_gpu.offline.records import DONE, FAILED, Record, StateFolder, folder_bytes
from valor_gpu.offline.shards import RESULT, find_shards
from valor_gpu.offline.tasks import check_boxes

Tell = Callable[[int, int, Record], None]


def run_offline(
    config: OfflineConfig | Mapping[str, Any] | str | os.PathLike[str],
    engine: str = "local",
    workers: int | None = None,
    progress: Tell | None = None,
) -> OfflineResult | None:
    """Evaluates all shards of a configuration, and writes ``result.json`` into its output.

    Another configuration with the same output replaces that file; a copy stays beside the states,
    ``states-*/result-*.json``.

    A shard whose states are on disk is not evaluated again, so that a run that was killed goes on where it stopped, and
    a run that failed in part tries the shards that failed. A shard fails alone: the numbers are those of the others,
    and the result says what is missing and why.

    Args:
        config: the configuration, its keys, or its file.
        engine: ``local``, this process; ``pool``, processes of this machine; ``torchrun``, the ranks that called this;
            ``ray``, actors of Ray Data.
        workers: processes or actors; default: one for each CPU. ``local`` has one, ``torchrun`` its ranks.
        progress: called after each shard with how many are done, how many there are, under torchrun for this rank, and
            the record of the shard.

    Returns:
        The result; under torchrun of rank 0 alone, None of the others.

    Raises:
        InputError: the configuration is wrong, a pattern matches no file, or many shards cannot count together.
        StoreError: the output cannot be written, as on a full disk; states on disk were damaged while this ran, or are
            not in the folder that rank 0 sees.
        MissingExtraError: a package is missing, such as ray.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for part, label in enumerate("01"):
        ...         line = f'{{"preds": 1, "target": {label}}}'
        ...         _ = pathlib.Path(folder, f"part-{part}.jsonl").write_text(line)
        ...     result = run_offline({
        ...         "metrics": {"accuracy": {"class": "classification.Accuracy", "num_classes": 2, "average": "micro"}},
        ...         "data": {"files": f"{folder}/part-*.jsonl", "task": "classification"},
        ...         "output": f"{folder}/out",
        ...     })
        >>> result.results["accuracy"].values["Accuracy"], result.counts["rows"]
        (0.5, 2)
    """
    check_choice("engine", engine, ENGINES)
    if workers is not None:
        check_int("workers", workers, 1)
    config = _config(config)
    check_device(config.device)
    check_boxes(config.data, make_metrics(config.metrics))  # these errors are no shard's
    shards = find_shards(config.data)
    folder = StateFolder.of(config)
    folder.prepare()
    ours = share_of(engine, shards)
    with ThreadPoolExecutor(native.threads()) as pool:  # checksums of all states
        finished = list(pool.map(folder.finished, ours))
    pending = [shard for shard, record in zip(ours, finished) if record is None]
    told = _Told(progress, len(ours) - len(pending), len(ours))
    if not engine_named(engine)(config, folder, pending, workers, told):
        return None
    result = collect(config, folder, shards)
    text = json.dumps(result.to_dict(), indent=1, allow_nan=False)
    own = hashlib.sha256(json.dumps(result.configuration, sort_keys=True).encode()).hexdigest()[:16]
    for path in (folder.path / f"result-{own}.json", Path(config.output) / RESULT):  # others write the second too
        write_whole(path, text.encode("utf-8", "surrogateescape"), b"\n")
    return result


def offline_status(config: OfflineConfig | Mapping[str, Any] | str | os.PathLike[str]) -> OfflineStatus:
    """How far an evaluation is, from what is on disk; another process may be at work on it.

    Args:
        config: as for :func:`run_offline`.

    Raises:
        InputError: the configuration is wrong, or a pattern matches no file.
    """
    config = _config(config)
    folder = StateFolder.of(config)
    records = [folder.record(shard) for shard in find_shards(config.data)]
    done = [each for each in records if each and each.status == DONE and folder.state_path(each.content).exists()]
    failures = tuple(each for each in records if each and each.status == FAILED)
    rows, others = sum(each.rows for each in done), tuple(map(str, folder.others()))
    return OfflineStatus(len(records), len(done), failures, rows, folder_bytes(folder.path), others)


def _config(config: OfflineConfig | Mapping[str, Any] | str | os.PathLike[str]) -> OfflineConfig:
    check_type("config", config, (OfflineConfig, Mapping, str, os.PathLike))
    if isinstance(config, OfflineConfig):
        return config
    return OfflineConfig.from_dict(config) if isinstance(config, Mapping) else load_offline_config(config)


class _Told:
    """Counts shards as they are done, for ``progress``."""

    def __init__(self, tell: Tell | None, done: int, total: int) -> None:
        self._tell, self._done, self._total = tell, done, total

    def __call__(self, record: Record) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell(self._done, self._total, record)
