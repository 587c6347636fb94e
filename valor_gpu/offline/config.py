"""What an offline evaluation is: metrics, data and where its states are kept. No torch.

Example:
    >>> config = OfflineConfig.from_dict({
    ...     "metrics": {"f1": {"class": "text.TokenF1"}},
    ...     "data": {"files": ["answers-*.jsonl"], "task": "text"},
    ...     "output": "out",
    ... })
    >>> config.data.format, config.data.batch_size
    ('jsonl', 256)
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from valor_gpu._version import __version__
from valor_gpu.checks import check_choice, check_int, check_number, check_type
from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import check_keys, read_mapping

TASKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("preds", "target"), ("weight",)),
    "text": (("preds", "target"), ()),
    "segmentation": (("preds", "target"), ()),
    "detection": (
        ("scores", "labels", "gt_labels"),
        ("boxes", "gt_boxes", "masks", "gt_masks", "keypoints", "gt_keypoints", "iscrowd", "area", "image_id", "size"),
    ),
}
"""Tasks, and the arguments of ``update`` that a row gives: those that it must have, and those that it may have."""
_DETECTION_DEFAULT = ("boxes", "gt_boxes", "scores", "labels", "gt_labels")

FORMATS = ("coco", "jsonl", "csv", "parquet", "arrow", "webdataset")
_ENDINGS = {
    "jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "tsv": "csv", "parquet": "parquet", "pq": "parquet",
    "arrow": "arrow", "feather": "arrow", "ipc": "arrow", "tar": "webdataset",
}  # fmt: skip
_TOP = ("metrics", "data", "output", "on_bad_row", "duplicates", "memory_limit", "retries", "device", "intervals",
        "shard_timeout")  # fmt: skip
_LONGEST = 31_536_000  # seconds of a year; more is no limit
_BOOTSTRAP = ("replicates", "confidence", "seed", "target", "method")
_DATA = ("files", "ground_truth", "detections", "format", "task", "fields", "labels", "batch_size")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, **{p + "ib": 1024**n for n, p in enumerate("kmgt", 1)},
          **{p + "b": 1000**n for n, p in enumerate("kmgt", 1)}}  # fmt: skip


@dataclass(frozen=True)
class DataConfig:
    """Where the rows are.

    Attributes:
        task: ``classification``, ``text``, ``segmentation`` or ``detection``.
        format: ``coco``, ``jsonl``, ``csv``, ``parquet``, ``arrow`` or ``webdataset``.
        files: patterns of paths, ``*``, ``?``, ``[...]`` and ``**``; every file is a shard.
        ground_truth: of format ``coco``: pattern of the files with ground truths.
        detections: of format ``coco``: pattern of the files with detections; the n-th belongs to the n-th ground truth.
        fields: argument of ``update`` to column; for scores of classes, several columns. Empty where it is not given.
        labels: names of the classes where columns hold names; their places are the class indices.
        batch_size: rows in an ``update``.
    """

    task: str
    format: str
    files: tuple[str, ...] = ()
    ground_truth: tuple[str, ...] = ()
    detections: tuple[str, ...] = ()
    fields: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None
    batch_size: int = 256


@dataclass(frozen=True)
class OfflineConfig:
    """An offline evaluation.

    Attributes:
        metrics: name to ``class`` (``detection.MeanAveragePrecision``, or ``module:Class`` of the user's own) and the
            arguments of its constructor.
        data: the rows.
        output: folder of states, records and result; made if it is not there.
        on_bad_row: ``shard``: a row that cannot be evaluated fails its shard, which then counts for nothing; ``row``:
            the row alone is left out and listed.
        duplicates: files with the same content: ``once`` counts the first of them, ``count`` counts all.
        memory_limit: bytes of data that a process may have while it works on a shard; None: as many as there are.
        retries: how often a shard is tried again after the worker that had it was killed.
        device: ``cpu``, ``cuda`` or ``cuda:N``, where ``update`` computes.
        intervals: choices of the bootstrap of the intervals of all numbers; None: there are none. States do not depend
            on them: a second run with other choices evaluates nothing again.
        shard_timeout: seconds that a shard may take; one that takes longer, as where a file system hangs, fails alone;
            None: as many as it needs.
    """

    metrics: Mapping[str, Mapping[str, Any]]
    data: DataConfig
    output: str
    on_bad_row: str = "shard"
    duplicates: str = "once"
    memory_limit: int | None = None
    retries: int = 2
    device: str = "cpu"
    intervals: Mapping[str, Any] | None = None
    shard_timeout: float | None = None

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> OfflineConfig:
        """Reads a configuration.

        Args:
            found: the keys of this class, those of ``data`` as a mapping; ``output`` may be left out of files, see
                :func:`load_offline_config`. ``memory_limit`` may be a text such as ``2 GiB``, ``intervals`` a number of
                replicates.

        Raises:
            InputError: a key is missing or unknown, or a value is out of range; the message names it.
        """
        check_type("configuration", found, Mapping)
        check_keys("configuration", found, _TOP)
        for name in ("metrics", "data", "output"):
            if name not in found:
                raise InputError(f"configuration must have the key {name!r} but has {', '.join(map(str, found))}")
        check_type("output", found["output"], (str, os.PathLike))
        for name, choices in (("on_bad_row", ("shard", "row")), ("duplicates", ("once", "count"))):
            check_choice(name, found.get(name, choices[0]), choices)
        check_int("retries", found.get("retries", cls.retries))
        check_type("device", found.get("device", cls.device), str)
        rest: dict[str, Any] = {
            name: found[name] for name in ("on_bad_row", "duplicates", "retries", "device") if name in found
        }
        if found.get("shard_timeout") is not None:
            check_number("shard_timeout", found["shard_timeout"], 0.001, _LONGEST)
            rest["shard_timeout"] = float(found["shard_timeout"])
        rest["intervals"] = _bootstrap(found.get("intervals"))
        memory = _byte_count(found.get("memory_limit"))
        output = os.path.abspath(os.fspath(found["output"]))
        return cls(_metrics(found["metrics"]), _data(found["data"]), output, memory_limit=memory, **rest)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON values that :meth:`from_dict` reads."""
        whole = asdict(self)
        if self.intervals is None:
            del whole["intervals"]
        whole["data"] = {name: value for name, value in whole["data"].items() if value not in (None, (), {})}
        kept: dict[str, Any] = json.loads(json.dumps(whole))
        return kept

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that stand for all that the states of a shard depend on beside its content.

        Of classes of the user's own, that is the file of their module, not what it imports.
        """
        data = {name: value for name, value in asdict(self.data).items() if name not in _PLACES}
        about = {"valor_gpu": __version__, "metrics": self.metrics, "data": data, "on_bad_row": self.on_bad_row}
        if sources := _sources(self.metrics):
            about["sources"] = sources
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _sources(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Each module with a class of the user's own and the SHA-256 of its file; states are of the class as it was."""
    found = {}
    for spec in metrics.values():
        module, is_own, _ = str(spec["class"]).partition(":")
        if is_own:
            with contextlib.suppress(ImportError, ValueError, AttributeError, OSError):  # the class is looked for later
                where = importlib.util.find_spec(module)
                found[module] = hashlib.sha256(Path(str(where and where.origin)).read_bytes()).hexdigest()
    return found


_PLACES = ("files", "ground_truth", "detections")


def load_offline_config(path: str | os.PathLike[str]) -> OfflineConfig:
    """Reads a configuration file in YAML (extra ``eval``) or JSON.

    Args:
        path: of the file. Paths in it are relative to the current folder. Without ``output``, that is the folder
            beside the file with its name and the ending ``.offline``.

    Raises:
        InputError: there is no such file, or it is no configuration; see :meth:`OfflineConfig.from_dict`.
        MissingExtraError: YAML without the package pyyaml.
    """
    found = read_mapping(path)
    found.setdefault("output", os.path.splitext(os.fspath(path))[0] + ".offline")
    return OfflineConfig.from_dict(found)


def _bootstrap(found: Any) -> dict[str, Any] | None:
    """The choices of the bootstrap, if intervals are asked for.

    Raises:
        InputError: a choice is unknown or out of its range.
    """
    from valor_gpu.stats.intervals import Bootstrap

    if found is None:
        return None
    choices = dict(found) if isinstance(found, Mapping) else {"replicates": found}
    check_keys("intervals", choices, _BOOTSTRAP)
    Bootstrap(**choices)
    return choices


def _metrics(found: Any) -> dict[str, dict[str, Any]]:
    check_type("metrics", found, Mapping)
    if not found:
        raise InputError("metrics must name at least one metric but is empty")
    chosen: dict[str, dict[str, Any]] = {}
    for name, given in found.items():
        choices = {"class": given} if isinstance(given, str) else given
        check_type(f"metrics.{name}", choices, Mapping)
        if not isinstance(choices.get("class"), str):
            raise InputError(f"metrics.{name} must have a 'class' such as detection.MeanAveragePrecision but has none")
        try:
            chosen[str(name)] = json.loads(json.dumps(dict(choices)))
        except (TypeError, ValueError) as error:
            raise InputError(f"metrics.{name} must hold JSON values: {error}") from None
    return chosen


def _data(found: Any) -> DataConfig:
    check_type("data", found, Mapping)
    check_keys("data", found, _DATA)
    places = {name: _patterns(f"data.{name}", found[name]) for name in _PLACES if name in found}
    form: str = found.get("format") or _format_of(places)
    check_choice("data.format", form, FORMATS)
    need = ("ground_truth", "detections") if form == "coco" else ("files",)
    if sorted(places) != sorted(need):
        given = ", ".join(places) or "none of it"
        raise InputError(f"data of format {form} must have {' and '.join(need)} but has {given}")
    task: str = found.get("task") or {"coco": "detection", "webdataset": "segmentation"}.get(form, "")
    check_choice("data.task", task or None, tuple(TASKS))
    if form == "coco" and task != "detection":
        raise InputError(f"data.task must be detection for format coco but is {task}")
    labels = found.get("labels")
    if labels is not None:
        check_type("data.labels", labels, (list, tuple))
    size = found.get("batch_size", 64 if task in ("detection", "segmentation") else 256)
    check_int("data.batch_size", size, 1)
    names = None if labels is None else tuple(map(str, labels))
    _check_once("data.labels", names or ())
    return DataConfig(
        task, form, fields=_fields(task, form, found.get("fields")), labels=names, batch_size=size, **places
    )


def _patterns(name: str, given: Any) -> tuple[str, ...]:
    listed = [given] if isinstance(given, (str, os.PathLike)) else given
    check_type(name, listed, (list, tuple))
    for each in listed:
        check_type(name, each, (str, os.PathLike))
    if not listed:
        raise InputError(f"{name} must name at least one file but is empty")
    return tuple(os.path.abspath(os.fspath(each)) for each in listed)


def _format_of(places: Mapping[str, tuple[str, ...]]) -> str:
    if "ground_truth" in places or "detections" in places:
        return "coco"
    found = {_ENDINGS.get(_ending(path)) for path in places.get("files", ())}
    if len(found) != 1 or None in found:
        raise InputError(f"data.format must be given, one of {', '.join(FORMATS)}: the names of files do not tell it")
    return str(found.pop())


def _ending(path: str) -> str:
    return os.path.splitext(path.lower().removesuffix(".gz"))[1].lstrip(".")


def _fields(task: str, form: str, given: Any) -> dict[str, str | tuple[str, ...]]:
    """Argument to column or columns."""
    required, optional = TASKS[task]
    if given is None:
        return {}
    if form == "coco":
        raise InputError("data.fields must be left out for format coco, whose fields are known")
    check_type("data.fields", given, Mapping)
    check_keys("data.fields", given, (*required, *optional))
    for name in required:
        if name not in given:
            raise InputError(f"data.fields of task {task} must have {', '.join(required)} but has no {name!r}")
    for name, column in given.items():
        check_type(f"data.fields.{name}", column, (str, list, tuple) if task == "classification" else str)
    fields = {name: column if isinstance(column, str) else tuple(map(str, column)) for name, column in given.items()}
    _check_once("data.fields", [name for column in fields.values() for name in _listed(column)])
    return fields


def default_fields(task: str) -> dict[str, str]:
    """The columns that are read where ``data.fields`` is not given, and format is not ``coco``."""
    return {name: name for name in (_DETECTION_DEFAULT if task == "detection" else TASKS[task][0])}


def _listed(column: str | tuple[str, ...]) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else column


def _check_once(name: str, values: Sequence[str]) -> None:
    twice = next((value for value, count in Counter(values).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{name} must name each once but names {twice!r} more than once")


def _byte_count(given: Any) -> int | None:
    if given is None:
        return None
    match = _SIZE.fullmatch(str(given).strip())
    if isinstance(given, bool) or match is None:
        raise InputError(f"memory_limit must be bytes, as 2 GiB or 2000000000, but is {given!r}")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])
