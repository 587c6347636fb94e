"""The provenance of results: data, device, versions, kind of kernel of each op. Imports no torch itself."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from valor_gpu import native
from valor_gpu._version import __version__
from valor_gpu.errors import InputError
from valor_gpu.ops._switches import NAMES

if TYPE_CHECKING:
    import torch

    from valor_gpu.digests import DataHashes

_PACKAGE = "valor_gpu"
HOST = "host"
"""Name among the kernels for functions that work on the CPU without the dispatcher."""


def host_provenance() -> dict[str, Any]:
    """The provenance of numbers that no op had a part in."""
    kernels = {HOST: "C++" if native.available("valor_cpu") else "Python"}
    return {
        "device": "cpu", "version": __version__, "versions": {"numpy": _installed("numpy")}, "kernels": kernels,
    }  # fmt: skip


@functools.cache
def _installed(package: str) -> str | None:
    """The version of a package, whether or not this process has imported it."""
    from importlib import metadata  # fifty modules, which a run without --json spares

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def provenance_of(
    served: Callable[[], Mapping[str, Any]],
    hashes: Callable[[], DataHashes],
    dtype: str | None,
    deviations: Callable[[], Iterable[str]] = tuple,
    world_size: int = 1,
) -> dict[str, Any]:
    """Returns the mapping of :attr:`valor_gpu.result.Result.provenance`.

    Args:
        served: gives device, versions and kernels.
        hashes: gives the hashes of the data; data that cannot be read any more have none, and the reason says why.
        dtype: what the numbers were reduced from.
        deviations: gives what differs from the defaults of the protocol.
        world_size: ranks whose states were joined.
    """
    from valor_gpu.digests import DataHashes

    try:
        found = hashes()
    except (InputError, OSError) as error:
        found = DataHashes.none(str(error))
    return {
        **served(),
        "dtype": dtype,
        "world_size": world_size,
        "deviations": list(deviations()),
        "hashed": found.hashed,
        "ground_truth": found.ground_truth,
        "predictions": found.predictions,
        "reasons": dict(found.reasons),
    }


def differences(used: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """Returns what differs from the defaults of a protocol.

    Example:
        >>> differences({"maxDets": [1, 10, 300], "useCats": 1}, {"maxDets": [1, 10, 100], "useCats": 1})
        ['maxDets is [1, 10, 300] instead of [1, 10, 100]']
    """
    return [f"{name} is {used[name]} instead of {usual[name]}" for name in usual if used[name] != usual[name]]


def op_provenance(device: torch.device, *modules: str) -> dict[str, Any]:
    """The provenance of numbers that were counted on a device.

    Args:
        device: where the tensors were.
        modules: names of the modules that counted. Those of this package are imported. All ops that these and what they
            import refer to may have served.
    """
    from valor_gpu.ops._library import backends

    ours = tuple(name for name in modules if name.startswith(f"{_PACKAGE}."))
    for module in ours:
        importlib.import_module(module)  # which registers its ops, whether or not this process has used it so far
    reached, name = _ops_of(ours), str(device)
    if device.type == "cuda":
        import torch

        name = torch.cuda.get_device_name(device)
    found = host_provenance()
    for op in backends():
        if op.name in reached:
            served = {"cpu": op.cpu, "cuda": op.cuda}.get(device.type)
            found["kernels"][op.name] = "reference" if served is None else served.kind
    return {**found, "device": name, "versions": {**found["versions"], "torch": _installed("torch")}}


@functools.cache
def _ops_of(modules: tuple[str, ...]) -> frozenset[str]:
    """Ops that modules of this package register, or those that they import.

    It is read from the sources, never from live modules, whose globals depend on what the process has done: the same
    answer in every process. An import inside of a function is not followed, nor a constant, nor a name that a package
    looks up when it is asked for.
    """
    todo, seen, ops = set(modules), set[str](), set[str]()
    while todo:
        seen.add(name := todo.pop())
        source = _source(name)
        ops |= source.ops
        imported = {home for module, part in source.imports if (home := _home(module, part))}
        todo |= imported - seen
    return frozenset(ops)


class _Source(NamedTuple):
    """Top level of a module: its imports from this package (module, name), the ops it registers, its constants."""

    imports: tuple[tuple[str, str], ...]
    ops: frozenset[str]
    constants: frozenset[str]


# What a module says at its top level: names that it imports, ops that it registers, constants.
_IMPORT = re.compile(rb"^from (valor_gpu[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_REGISTERED = re.compile(rb"^\w+[^=\n]* = register\(\s*(?:\w+\()?f?\"(\w+)", re.MULTILINE)
_CONSTANT = re.compile(rb"^(_?[A-Z][A-Z0-9_]*)(?:: [^=\n]+)? = (?!register\()", re.MULTILINE)
_NAME = re.compile(rb"^[\s(]*(\w+)")


@functools.cache
def _source(module: str) -> _Source:
    """The top level of a module; without its source, as in a frozen program, all ops may have served.

    It is read by patterns, since parsing all modules of a metric would take a third of a second.
    """
    spec = importlib.util.find_spec(module)
    path = Path(str(spec and spec.origin))  # not by its loader: that of pytest gives no source
    if path.suffix != ".py" or not path.is_file():
        return _Source((), frozenset(NAMES), frozenset())
    text = path.read_bytes()
    imports = [
        (home.decode(), found[1].decode())
        for home, names in _IMPORT.findall(text)
        for part in re.sub(rb"#.*", b"", names).split(b",")
        if (found := _NAME.match(part))
    ]
    ops, constants = (frozenset(map(bytes.decode, found.findall(text))) for found in (_REGISTERED, _CONSTANT))
    return _Source(tuple(imports), ops, constants)


@functools.cache
def _home(module: str, name: str) -> str:
    """The module to follow for ``from module import name``; empty for none."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.submodule_search_locations is None:
        return "" if name in _source(module).constants else module
    return submodule if importlib.util.find_spec(submodule := f"{module}.{name}") else ""


class Served:
    """Part of every metric: gives its results their provenance."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(own := vars(cls).get("result"), FunctionType):
            cls.result = _noting(own)  # type: ignore[attr-defined]

    _usual: ClassVar[Mapping[str, Any]] = {}
    """Choices of the signature as the protocol has them by default."""

    @classmethod
    def _deviations(cls, signature: Mapping[str, Any]) -> list[str]:
        """What the signature of a result tells of choices that are not the defaults of the protocol."""
        return differences({name: signature.get(name) for name in cls._usual}, cls._usual)


def _noting(result: Callable[..., Any]) -> Callable[..., Any]:
    """``result`` of a metric, which leaves in the result that it returns what its provenance is found from."""

    @functools.wraps(result)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = result(self, *args, **kwargs)
        own = getattr(found, "__dict__", {})
        if own.get("_provenance", own) is None:
            own["_provenance"] = functools.partial(
                _metric_provenance, self.error.device, type(self), found.signature, self._fields, _data_of(self)
            )
        return found

    return noting


class _Data(NamedTuple):
    """The data of a result, which no later update of its metric changes: tensors are never changed in place.

    Attributes:
        world_size: ranks whose states were joined.
        kind: class of the state; None: it cannot tell which data it is of.
        tensors: by field, or lists of their parts; None: nobody kept those of all ranks.
    """

    world_size: int
    kind: Any
    tensors: Mapping[str, Any] | None


def _data_of(metric: Any) -> _Data:
    """The data that the result which a metric has just made is of; takes microseconds and no collective."""
    size = 1
    if metric.sync_on_compute and metric.distributed_available_fn():
        import torch

        joined = torch.distributed.is_available() and torch.distributed.is_initialized()
        size = torch.distributed.get_world_size(metric.process_group) if joined else 1
    if metric._kind.hashed is None:
        return _Data(size, None, None)
    if size > 1 and not metric._is_synced:
        return _Data(size, metric._kind, None if metric._merged is None else metric._merged.tensors)
    state = {spec.name: metric.__dict__[spec.name] for spec in metric._fields}
    return _Data(size, metric._kind, {name: list(now) if type(now) is list else now for name, now in state.items()})


def _metric_provenance(
    device: torch.device, kind: Any, signature: Mapping[str, Any], fields: Sequence[Any], data: _Data
) -> Mapping[str, Any]:
    dtypes = sorted({str(spec.dtype).removeprefix("torch.") for spec in fields})
    return provenance_of(
        lambda: op_provenance(device, *(base.__module__ for base in kind.__mro__)),
        lambda: _hashes_of(data, fields),
        ", ".join(dtypes),
        lambda: kind._deviations(signature),
        data.world_size,
    )


def _hashes_of(data: _Data, fields: Sequence[Any]) -> DataHashes:
    import torch

    from valor_gpu.digests import COUNTS_ALONE, DataHashes

    if data.kind is None:
        return DataHashes.none(COUNTS_ALONE)
    if data.tensors is None:
        return DataHashes.none("compute_with_cache=False keeps no state of all ranks")
    tensors = data.tensors
    whole = {spec.name: spec.whole(tensors[spec.name], torch.device("cpu")) for spec in fields}
    found: DataHashes = data.kind(**whole).hashes()
    return found
