"""States on disk to one result; a shard that cannot count together with those before it fails alone."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from valor_gpu import native
from valor_gpu.errors import InputError, StoreError
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.memory import is_out_of_memory
from valor_gpu.offline.merging import merge_read
from valor_gpu.offline.metrics import make_metrics
from valor_gpu.offline.outcome import OfflineResult
from valor_gpu.offline.records import DONE, FAILED, Record, StateFolder, duplicates_of
from valor_gpu.offline.shards import Shard
from valor_gpu.offline.text_ids import TEXT_FIELDS, Texts, in_order, joined_texts, with_texts
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

_CONFLICTS = 8  # shards that cannot count together with others: more are a mistake of the whole data

_CHOICES = ("metrics", "data", "on_bad_row", "duplicates", "intervals")  # on which the numbers depend


def collect(config: OfflineConfig, folder: StateFolder, shards: Sequence[Shard]) -> OfflineResult:
    """The result of what is on disk.

    Raises:
        InputError: more than a few shards cannot count together, as where image ids start again in every file.
        StoreError: a shard has no record there, or its states are damaged.
    """
    records = [_recorded(folder, shard) for shard in shards]
    _check_names(folder, records)
    for _ in range(_CONFLICTS + 1):
        counted, duplicates = _counted(config, records)
        try:
            texts = joined_texts(folder.names(content)[1] for content in counted.values())
            results = {name: _result(config, folder, name, counted.values(), texts) for name in config.metrics}
            break
        except Exception as error:  # a class of the user's own raises anything
            if not _is_of_shards(error):
                raise
            conflict = error
            blamed = _first_to_blame(config, folder, counted)
            if blamed is None:
                raise
            number = blamed
            records[number] = _failed(
                records[number], f"cannot count together with the shards before it: {_text(error)}"
            )
    else:
        name = shards[number].name
        raise InputError(
            f"more than {_CONFLICTS} shards cannot count together, such as {name}: {_text(conflict)}"
        ) from conflict
    results = {name: _finished(result, config, texts) for name, result in results.items()}
    failures = tuple(record for record in records if record.status == FAILED)
    kept = [records[number] for number in counted]
    counts = {
        "shards": len(shards), "counted": len(kept), "failed": len(failures), "duplicates": len(duplicates),
        "rows": sum(record.rows for record in kept), "bad_rows": sum(len(record.bad_rows) for record in kept),
        **sum((Counter(record.missing) for record in kept), Counter()),
    }  # fmt: skip
    bad = tuple(row for record in kept for row in record.bad_rows)
    names = {shards[number].name: shards[first].name for number, first in duplicates.items()}
    empty = tuple(record.name for record in kept if not record.rows and not record.bad_rows)
    about = {name: value for name, value in config.to_dict().items() if name in _CHOICES}
    return OfflineResult(results, counts, failures, bad, names, empty, about)


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error or 'no message'}"


def _counted(config: OfflineConfig, records: Sequence[Record]) -> tuple[dict[int, str], dict[int, int]]:
    """Number to content of the shards that count, in order; number of a duplicate to that of the first."""
    contents = [each.content if each.status == DONE else None for each in records]
    duplicates = duplicates_of(contents) if config.duplicates == "once" else {}
    return {n: content for n, content in enumerate(contents) if content and n not in duplicates}, duplicates


def _result(
    config: OfflineConfig, folder: StateFolder, name: str, contents: Iterable[str], texts: Texts | None = None
) -> Result:
    spec = {name: config.metrics[name]}
    reads = [functools.partial(folder.state, content, name) for content in contents]
    merged = merge_read(reads, lambda: make_metrics(spec)[name], native.threads())
    return in_order(merged, texts).result() if texts else merged.result()


def _finished(result: Result, config: OfflineConfig, texts: Texts) -> Result:
    """The result with its intervals, if they are asked for, and with ids that are texts."""
    if config.intervals is not None:
        result = result.with_intervals(Bootstrap(**config.intervals))
    return with_texts(result, texts) if texts else result


def _first_to_blame(config: OfflineConfig, folder: StateFolder, counted: Mapping[int, str]) -> int | None:
    """The number of the first shard that has no result together with those before it; None: there is none without it.

    The parts of the tree hold several shards each, and some conflicts are found by ``result`` alone, so that results
    of the first shards are made, half of those in question at a time.
    """
    numbers, contents = list(counted), list(counted.values())
    sound, failing = 0, len(contents)
    if not failing or _fails(config, folder, []):
        return None
    while failing - sound > 1:
        middle = (sound + failing) // 2
        if _fails(config, folder, contents[:middle]):
            failing = middle
        else:
            sound = middle
    return numbers[failing - 1]


def _fails(config: OfflineConfig, folder: StateFolder, contents: Sequence[str]) -> bool:
    try:
        for name in config.metrics:
            _result(config, folder, name, contents)
    except Exception as error:
        if not _is_of_shards(error):
            raise
        return True
    return False


def _is_of_shards(error: Exception) -> bool:
    """Whether shards can be to blame for what merging raised, and not the disk, the memory or the states on disk."""
    return not (isinstance(error, (StoreError, OSError)) or is_out_of_memory(error))


def _check_names(folder: StateFolder, records: list[Record]) -> None:
    """Fails the shards whose labels or image ids mean others than those of the shards before them."""
    known: dict[str, tuple[str, str]] = {}
    kinds: dict[str, tuple[bool, str]] = {}
    for number, record in enumerate(records):
        if record.status != DONE:
            continue
        classes, texts = folder.names(record.content)
        if why := _other_kind(texts, kinds) if record.rows else "":
            records[number] = _failed(record, why)
            continue
        other = next((label for label, name in classes.items() if known.get(label, (name,))[0] != name), None)
        if other is not None:
            name, first = known[other]
            why = f"category {other} must be {name!r}, as in {first}, but is {classes[other]!r}"
            records[number] = _failed(record, why)
            continue
        for label, name in classes.items():
            known.setdefault(label, (name, record.name))
        for field in TEXT_FIELDS if record.rows else ():
            kinds.setdefault(field, (field in texts, record.name))


def _other_kind(texts: Texts, kinds: Mapping[str, tuple[bool, str]]) -> str:
    """Why ids of a shard cannot stand beside those of a shard before, integers beside texts; empty where they can."""
    for field, (are_texts, first) in kinds.items():
        if (field in texts) != are_texts:
            need, got = ("texts", "has none") if are_texts else ("integers", "has texts")
            return f"{field} must be {need}, as in {first}, but the shard {got}"
    return ""


def _recorded(folder: StateFolder, shard: Shard) -> Record:
    """How a shard went in this run or one before; a shard whose content has changed since does not count."""
    record = folder.last_record(shard)
    if record is None:
        raise StoreError(
            f"{folder.path} must have a record of {shard.name} but has none: the process that evaluated it wrote to a"
            " folder that is not this one, as on another machine"
        )
    if record.status == FAILED or folder.record(shard) is not None or _same_content(folder, shard, record):
        return record
    return _failed(record, "it has changed since it was evaluated: run again")


def _same_content(folder: StateFolder, shard: Shard, record: Record) -> bool:
    """Whether a file with another stamp is still the same, as a copy on another machine is or one that was touched."""
    try:
        stamp = shard.stamp()
        same = shard.content() == record.content and shard.stamp() == stamp
    except OSError:
        return False
    if same:
        folder.save(shard, replace(record, stamp=stamp), None)
    return same


def _failed(record: Record, why: str) -> Record:
    return replace(record, status=FAILED, rows=0, bad_rows=(), error=f"{record.name}: {why}")
