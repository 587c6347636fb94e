"""Arguments of the constructors of metrics, which a state file of a metric holds beside its state."""

from __future__ import annotations

import enum
import importlib
import math
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.compat.torchmetrics.sources import TASKS
from valor_gpu.distributed import dump_state
from valor_gpu.errors import InputError, ValorError
from valor_gpu.exports.files import dtype_named
from valor_gpu.state_file import StateFile, document_of, write_state

if TYPE_CHECKING:
    from typing_extensions import Self

KIND = "metric"
"""Kind of the state files of metrics."""
_PACKAGES = TASKS
"""Where a class of a state file is looked for; its name must be public there."""
_ELSEWHERE = frozenset({
    "compute_on_cpu", "compute_with_cache", "device", "dist_sync_fn", "dist_sync_on_step", "distributed_available_fn",
    "process_group", "sync_on_compute",
})  # fmt: skip
"""Arguments that say where a metric works, not on what: they are not kept."""
_SCALARS = (bool, int, float, str, type(None))


class Saved:
    """Part of every metric: notes the arguments of its constructor, and writes them with its state to a file."""

    _given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Makes the metric, which knows its arguments."""
        made = super().__new__(cls)
        made.__dict__["_given"] = (args, kwargs)
        return made

    def _from_elsewhere(self, parts: Mapping[str, list[Tensor]]) -> Mapping[str, list[Tensor]]:
        """The tensors of a state of other ranks, files or metrics, as this metric keeps its own."""
        return parts

    def save_state(self: Any, path: str | os.PathLike[str]) -> None:
        """Writes a state file, which :func:`valor_gpu.stats.compare` takes and :func:`valor_gpu.load_metric` reads.

        It holds the class, the arguments of its constructor, the state of all ranks and the result. It is collective
        like :meth:`result`: every rank calls it, and the first one of the process group writes.

        Args:
            path: of the file, which is written in one step.

        Raises:
            InputError: the class is none of this package; an argument has no form in JSON, such as a function; or an
                attribute was changed after the metric was made.
            OSError: the file cannot be written; an older one stays as it is.
        """
        package, name = _public_name(type(self))
        choices = {"package": package, "class": name, **_arguments(name, *self._given)}
        document = document_of(self.result())
        with self.synced_state():
            data = dump_state(self._tensors(self._schema), self._identity, self._update_count)
        _check_same(self, rebuilt(choices))
        if not (self.distributed_available_fn() and torch.distributed.get_rank(self.process_group) > 0):
            write_state(path, StateFile(KIND, choices, {"state": np.frombuffer(data, np.uint8)}, document))


def _public_name(kind: type) -> tuple[str, str]:
    """Package and name by which a metric class is public."""
    for package in _PACKAGES:
        if kind.__module__.startswith("valor_gpu."):
            home = importlib.import_module(f"valor_gpu.{package}")
            if kind.__name__ in home.__all__ and getattr(home, kind.__name__) is kind:
                return package, kind.__name__
    raise InputError(
        f"save_state needs a public metric of valor_gpu but this is a {kind.__module__}.{kind.__qualname__}: nothing"
        " would say how to make it again; use to_bytes()"
    )


def rebuilt(choices: Mapping[str, Any]) -> Any:
    """Returns a metric without data by the choices of a state file.

    Raises:
        InputError: its class is no public metric of this package, or does not take its arguments.
    """
    package, name = str(choices.get("package")), str(choices.get("class"))
    home = importlib.import_module(f"valor_gpu.{package}") if package in _PACKAGES else None
    kind = getattr(home, name) if home is not None and name in home.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, Saved)):
        raise InputError(f"the state file must be of a public metric of valor_gpu but is of {package}.{name}")
    try:
        args = [_decoded(value) for value in choices["args"]]
        return kind(*args, **{key: _decoded(value) for key, value in choices["kwargs"].items()})
    except ValorError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
        raise InputError(f"the state file has arguments that {name} does not take: {error}") from None


# ------------------------------------------------------------------------------------ arguments of constructors in JSON


def _arguments(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in kwargs.items() if key not in _ELSEWHERE}
    return {
        "args": [_encoded(value, f"argument {place} of {name}") for place, value in enumerate(args, 1)],
        "kwargs": {key: _encoded(value, f"argument {key} of {name}") for key, value in kept.items()},
    }


def _encoded(value: Any, what: str) -> Any:
    """A value in JSON: what JSON has no form for is an object with one key that begins with ``$``."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        kind = "$tensor" if isinstance(value, Tensor) else "$array"
        found = [_encoded(each, what) for each in np.asarray(value.tolist(), object).reshape(-1).tolist()]
        return {kind: found, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    if isinstance(value, list):
        return [_encoded(each, what) for each in value]
    if isinstance(value, (tuple, set, frozenset, range)):
        parts = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return {f"${type(value).__name__.removeprefix('frozen')}": [_encoded(each, what) for each in parts]}
    if isinstance(value, Mapping):
        return {"$dict": [[_encoded(key, what), _encoded(each, what)] for key, each in value.items()]}
    raise InputError(
        f"save_state needs arguments that a file can hold but {what} is a {type(value).__name__}: leave it out, or"
        " compare the metrics themselves"
    )


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    if not value:
        raise ValueError("an object without a key")
    kind, content = next(iter(value.items()))
    if kind == "$float":
        return float(content)
    if kind == "$dtype":
        found = getattr(torch, content, None)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"a dtype {content}")
        return found
    if kind == "$dict":
        return {_decoded(key): _decoded(each) for key, each in content}
    parts = [_decoded(each) for each in content]
    if kind == "$tensor":
        return torch.tensor(parts, dtype=_decoded({"$dtype": value["dtype"]})).reshape(value["shape"])
    if kind == "$array":
        return np.array(parts, dtype_named(value["dtype"])).reshape(value["shape"])
    return {"$tuple": tuple, "$set": set, "$range": list}[kind](parts)


# ---------------------------------------------------------------------------------------- changes after the constructor


def _check_same(metric: Any, twin: Any) -> None:
    """Raises for the first choice of a metric that its arguments do not lead to."""
    mine, other = dict(_choices(metric)), dict(_choices(twin))
    for name in dict.fromkeys((*mine, *other)):
        if mine.get(name) != other.get(name):
            raise InputError(
                f"save_state needs the metric as its arguments made it but {name} was changed to {mine.get(name)}:"
                f" give it to the constructor"
            )
    metric._identity.check(twin._identity.text, "a metric of the same arguments")


def _choices(metric: Any) -> Iterator[tuple[str, str]]:
    """Public attributes of plain values, as text."""
    states = {*metric._defaults, *_ELSEWHERE, "training"}
    for name, value in vars(metric).items():
        if not name.startswith("_") and name not in states and _is_plain(value):
            yield name, repr(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(key) and _is_plain(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return type(value) in _SCALARS
