"""The provenance of results: device, version of the package, kind of kernel of each op. Imports no torch itself."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from valor_gpu import native
from valor_gpu._version import __version__
from valor_gpu.ops._switches import NAMES

if TYPE_CHECKING:
    import torch

_PACKAGE = "valor_gpu"
HOST = "host"
"""Name among the kernels for functions that work on the CPU without the dispatcher."""


def host_provenance() -> dict[str, Any]:
    """The provenance of numbers that no op had a part in."""
    kernels = {HOST: "C++" if native.available("valor_cpu") else "Python"}
    return {"device": "cpu", "version": __version__, "kernels": kernels}


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
    return {**found, "device": name}


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


def _noting(result: Callable[..., Any]) -> Callable[..., Any]:
    """``result`` of a metric, which leaves device and class in the result that it returns, in half a microsecond."""

    @functools.wraps(result)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = result(self, *args, **kwargs)
        own = getattr(found, "__dict__", {})
        if own.get("_provenance", own) is None:
            own["_provenance"] = functools.partial(_metric_provenance, self.error.device, type(self))
        return found

    return noting


def _metric_provenance(device: torch.device, kind: type) -> Mapping[str, Any]:
    return op_provenance(device, *(base.__module__ for base in kind.__mro__))
