"""One shard to the states of all metrics: the same function on every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.offline.chunks import Chunk
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.formats import format_named
from valor_gpu.offline.memory import is_out_of_memory, memory_bound, peak_bytes
from valor_gpu.offline.metrics import make_metrics
from valor_gpu.offline.records import DONE, FAILED, BadRow, Counted, Record
from valor_gpu.offline.shards import Shard, Stamp
from valor_gpu.offline.tasks import Task, UndecidedError
from valor_gpu.ops.error_codes import raise_error

Finished = tuple[Record, dict[str, bytes] | None]
"""How a shard went, and the states of its metrics by name: None where it failed or its content has states already."""
Known = Callable[[str], Counted | None]
Metrics = Mapping[str, Metric[Any]]
_Add = Callable[[Task, Chunk, Metrics], list[BadRow]]


class _RowError(InputError):
    """A row, or the rows of a chunk together, cannot be evaluated."""

    def __init__(self, row: BadRow) -> None:
        super().__init__(row.message)
        self.row = row


class _UpdateError(Exception):
    """An ``update`` or what came before it failed."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = problem


def process_shard(config: OfflineConfig, shard: Shard, known: Known = lambda content: None) -> Finished:
    """Evaluates a shard; never raises for what is wrong with its data, its files or the memory that it needs.

    Args:
        config: metrics and data.
        shard: the files.
        known: what is known of a content whose states are there, so that they need not be made again.
    """
    start, cpu, stamp, content, error = time.perf_counter(), time.process_time(), list[list[int]](), "", ""
    states: dict[str, bytes] | None = None
    counted = Counted()
    try:
        with memory_bound(config.memory_limit):
            stamp = shard.stamp()
            shard.check_files()
            content = shard.content()
            there = known(content)
            if there is None:
                counted, states = _evaluate(config, shard)
            else:
                counted = there.at(shard)
            _check_same(shard, stamp)
    except _RowError as problem:
        counted, states, error = Counted(bad_rows=(problem.row,)), None, str(problem)
    except Exception as problem:  # whatever a file, a library or a class of the user raises is the shard's
        counted, states, error = Counted(), None, _described(problem, config)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    status = FAILED if error else DONE
    spent = (seconds, cpu, peak_bytes())
    about = (shard.name, status, stamp, content, counted.rows, counted.bad_rows, error, *spent)
    return Record(*about, classes=counted.classes, texts=counted.texts, missing=counted.missing), states


def _described(problem: Exception, config: OfflineConfig) -> str:
    if is_out_of_memory(problem):
        bound = "" if config.memory_limit is None else f" beyond memory_limit, {config.memory_limit:,} bytes"
        return f"not enough memory{bound}: {problem}".removesuffix(": ").partition("\n")[0]
    text = str(problem) or "no message"
    return text if isinstance(problem, (InputError, OSError)) else f"{type(problem).__name__}: {text}"


def _check_same(shard: Shard, stamp: Stamp) -> None:
    if shard.stamp() != stamp:
        raise InputError(f"{shard.name} must stay as it is while it is read but has changed: run again")


def _evaluate(config: OfflineConfig, shard: Shard) -> tuple[Counted, dict[str, bytes]]:
    """Rows and states of a shard; where a row is to blame for a failure, it is looked for in a second pass."""
    try:
        return _pass(config, shard, _update_all)
    except _UpdateError as error:
        if is_out_of_memory(error.problem):
            raise error.problem from None
        counted, states = _pass(config, shard, _Careful(config))
        if not counted.bad_rows:
            raise error.problem from None
        return counted, states


def _pass(config: OfflineConfig, shard: Shard, add: _Add) -> tuple[Counted, dict[str, bytes]]:
    metrics = make_metrics(config.metrics, config.device)
    task = Task.of(config.data, metrics, config.device)
    rows, bad, classes, missing = 0, list[BadRow](), dict[str, str](), dict[str, int]()
    texts: dict[str, Mapping[str, str]] = {}
    for chunk in format_named(config.data.format)(shard, task.columns, config.data.batch_size):
        task.check_columns(chunk)
        left_out = [*chunk.bad, *(add(task, chunk, metrics) if len(chunk) else ())]
        if left_out and config.on_bad_row == "shard":
            raise _RowError(left_out[0])
        rows += len(chunk) - len(left_out) + len(chunk.bad)
        bad += left_out
        classes |= chunk.classes
        texts |= chunk.texts
        missing |= chunk.missing
    try:
        _check_errors(metrics)
    except Exception as problem:
        raise _UpdateError(problem) from problem
    states = {name: metric.to_bytes() for name, metric in metrics.items()}
    return Counted(rows, tuple(bad), tuple(shard.files.values()), classes, texts, missing), states


def _update_all(task: Task, chunk: Chunk, metrics: Metrics) -> list[BadRow]:
    try:
        for arguments in task.updates(chunk):
            for metric in metrics.values():
                metric.update(*arguments)
    except UndecidedError:  # of the whole shard: without those rows the others would be taken for something else
        raise
    except Exception as problem:
        raise _UpdateError(problem) from problem
    return []


def _check_errors(metrics: Metrics) -> None:
    """Raises what ``update`` of CUDA tensors left for later."""
    for metric in metrics.values():
        raise_error(metric.error, metric._describe_error)


class _Careful:
    """Updates metrics with a chunk after metrics without other data have taken it, row by row where they did not.

    Args:
        config: which metrics.
    """

    def __init__(self, config: OfflineConfig) -> None:
        self._scratch = make_metrics(config.metrics, config.device)

    def __call__(self, task: Task, chunk: Chunk, metrics: Metrics) -> list[BadRow]:
        bad = []
        if self._problem(task, chunk) is not None:
            problems = {row: self._problem(task, chunk.take([row])) for row in range(len(chunk))}
            bad = [BadRow(chunk.places[row], _at(chunk.places[row], found)) for row, found in problems.items() if found]
            chunk = chunk.take([row for row, found in problems.items() if not found])
        try:
            if len(chunk):
                _update_all(task, chunk, metrics)
        except _UpdateError as error:  # each row alone is sound
            place = f"{chunk.places[0]} and the rows after it"
            raise _RowError(BadRow(place, _at(place, error.problem))) from error
        return bad

    def _problem(self, task: Task, chunk: Chunk) -> Exception | None:
        """What the metrics raise for a chunk alone."""
        try:
            for metric in self._scratch.values():
                metric.reset()
            _update_all(task, chunk, self._scratch)
            _check_errors(self._scratch)
        except _UpdateError as error:
            return error.problem
        except Exception as error:
            return error
        return None


def _at(place: str, problem: Exception) -> str:
    text = str(problem) or type(problem).__name__
    return text if text.startswith(place) else f"{place}: {text}"
