"""Registers an op (schema, reference, fake, CPU, CUDA) with the torch dispatcher, which then picks the kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from valor_gpu import native
from valor_gpu.default_device import device_free

NAMESPACE = "valor_gpu"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
_REGISTERED: dict[str, Op] = {}

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Implementation:
    """A kernel for one dispatch key, or the reason why the reference serves it.

    Attributes:
        kind: ``C++``, ``CUDA``, ``Triton`` or ``reference``.
        kernel: the function, None when the reference serves this key.
        reason: why this kind serves.
        warning: what the first call says; empty where no faster kernel is missing.
    """

    kind: str
    kernel: Kernel | None
    reason: str
    warning: str = ""


@dataclass(frozen=True)
class Op:
    """One registered op: its name and who serves it on each device."""

    name: str
    schema: str
    reference: Kernel
    cpu: Implementation
    cuda: Implementation


def by_reference(reason: str, warning: str = "") -> Implementation:
    """The reference serves this key, for ``reason``; with a ``warning`` at the first call if that is a loss."""
    return Implementation("reference", None, reason, warning)


def _warning_first(kernel: Kernel, message: str) -> Kernel:
    @functools.wraps(kernel)
    def warned(*args: Any) -> Any:
        native.warn_once(message)
        return kernel(*args)

    return warned


def register(
    schema: str, *, reference: Kernel, fake: Kernel, cpu: Implementation, cuda: Implementation
) -> torch._ops.OpOverload[..., Any]:
    """Defines an op and its kernels; returns the callable overload.

    Args:
        schema: torch schema, for example ``"area(Tensor boxes) -> Tensor"``.
        reference: plain-torch definition, used where no kernel is registered.
        fake: shape and dtype propagation for ``torch.compile``.
        cpu: what serves CPU tensors.
        cuda: what serves CUDA tensors.
    """
    name = schema.split("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, device_free(reference), "CompositeExplicitAutograd")
    for key, implementation in (("CPU", cpu), ("CUDA", cuda)):
        if implementation.kernel is not None:
            _LIBRARY.impl(name, device_free(implementation.kernel), key)
        elif implementation.warning:
            _LIBRARY.impl(name, device_free(_warning_first(reference, implementation.warning)), key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)
    _REGISTERED[name] = Op(name, schema, reference, cpu, cuda)
    return getattr(getattr(torch.ops, NAMESPACE), name).default  # type: ignore[no-any-return]


def backends() -> list[Op]:
    """Every registered op, by name."""
    return [_REGISTERED[name] for name in sorted(_REGISTERED)]


def reference(name: str) -> Kernel:
    """The plain-torch definition of op ``name``, as tests and benchmarks call it."""
    return _REGISTERED[name].reference
