"""The provenance of results: device, version of the package, kind of kernel of each op. Imports no torch itself."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from valor_gpu import native
from valor_gpu._version import __version__

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
        modules: names of the modules that counted. All ops that these and what they import refer to may have served.
    """
    from valor_gpu.ops._library import backends

    reached, name = _ops_of(modules), str(device)
    if device.type == "cuda":
        import torch

        name = torch.cuda.get_device_name(device)
    found = host_provenance()
    for op in backends():
        if op.name in reached:
            served = {"cpu": op.cpu, "cuda": op.cuda}.get(device.type)
            found["kernels"][op.name] = "reference" if served is None else served.kind
    return {**found, "device": name}


def _ops_of(modules: tuple[str, ...]) -> set[str]:
    """Ops that are among the globals of modules of this package, or of those from which their globals come.

    It takes 0.3 to 1 ms. Modules that are not imported have not served; what is imported inside of a function is not
    followed.
    """
    import torch

    todo, seen, ops = set(filter(_is_followed, modules)), set[str](), set[str]()
    while todo:
        seen.add(name := todo.pop())
        for value in list(vars(sys.modules[name]).values()):
            if isinstance(value, torch._ops.OpOverload) and value.namespace == _PACKAGE:
                ops.add(value._schema.name.partition("::")[2])
            home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if home not in seen and _is_followed(home):
                todo.add(str(home))
    return ops


def _is_followed(module: object) -> bool:
    """Whether it names a file of this package: what a package holds depends on which names were asked of it so far."""
    inside = isinstance(module, str) and module.startswith(f"{_PACKAGE}.") and module in sys.modules
    return inside and not hasattr(sys.modules[str(module)], "__path__")


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
