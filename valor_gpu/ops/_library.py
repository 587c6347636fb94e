"""Registers an op (schema, reference, fake, CPU, CUDA) with the torch dispatcher, which then picks the kernel.

``VALOR_GPU_DISABLE`` is read here: a kernel that it switches off is not registered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from valor_gpu import native
from valor_gpu.default_device import device_free
from valor_gpu.ops._switches import VARIABLE, switched_off

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
        disabled: whether ``VALOR_GPU_DISABLE`` takes a CUDA kernel away that would serve: it names the op, or one whose
            kernel the op launches.
    """

    kind: str
    kernel: Kernel | None
    reason: str
    warning: str = ""
    disabled: bool = False


@dataclass(frozen=True)
class Op:
    """One registered op: its name and who serves it on each device; ``launches`` as of :func:`register`."""

    name: str
    schema: str
    reference: Kernel
    cpu: Implementation
    cuda: Implementation
    launches: tuple[str, ...] = ()


def by_reference(reason: str, warning: str = "") -> Implementation:
    """The reference serves this key, for ``reason``; with a ``warning`` at the first call if that is a loss."""
    return Implementation("reference", None, reason, warning)


def _warning_first(kernel: Kernel, message: str) -> Kernel:
    @functools.wraps(kernel)
    def warned(*args: Any) -> Any:
        native.warn_once(message)
        return kernel(*args)

    return warned


def _unless_disabled(name: str, launches: tuple[str, ...], cuda: Implementation) -> Implementation:
    """``cuda``, or the reference where the variable names op ``name`` or an op whose kernel it launches."""
    named = next((op for op in (name, *launches) if op in switched_off()), None)
    if named is None:
        return cuda
    if cuda.kernel is None:
        return replace(cuda, reason=f"{cuda.reason}; {VARIABLE} finds no CUDA kernel to switch off")
    whose = f"its {cuda.kind} kernel" if named == name else f"the kernel of {named}, which its {cuda.kind} kernel needs"
    reason = f"{VARIABLE} switches off {whose}"
    warning = f"plain PyTorch serves {name} on CUDA tensors, slowly: {reason}"
    return replace(by_reference(reason, warning), disabled=True)


def register(
    schema: str,
    *,
    reference: Kernel,
    fake: Kernel,
    cpu: Implementation,
    cuda: Implementation,
    launches: tuple[str, ...] = (),
) -> torch._ops.OpOverload[..., Any]:
    """Defines an op and its kernels; returns the callable overload.

    Args:
        schema: torch schema, for example ``"area(Tensor boxes) -> Tensor"``.
        reference: plain-torch definition, used where no kernel is registered.
        fake: shape and dtype propagation for ``torch.compile``.
        cpu: what serves CPU tensors.
        cuda: what serves CUDA tensors.
        launches: other ops whose kernels that of CUDA launches as well: it is off where they are.

    Raises:
        InputError: ``VALOR_GPU_DISABLE`` names an op that does not exist.
    """
    name = schema.split("(")[0]
    cuda = _unless_disabled(name, launches, cuda)
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, device_free(reference), "CompositeExplicitAutograd")
    for key, implementation in (("CPU", cpu), ("CUDA", cuda)):
        if implementation.kernel is not None:
            _LIBRARY.impl(name, device_free(implementation.kernel), key)
        elif implementation.warning:
            _LIBRARY.impl(name, device_free(_warning_first(reference, implementation.warning)), key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)
    _REGISTERED[name] = Op(name, schema, reference, cpu, cuda, launches)
    return getattr(getattr(torch.ops, NAMESPACE), name).default  # type: ignore[no-any-return]


def backends() -> list[Op]:
    """Every registered op, by name."""
    return [_REGISTERED[name] for name in sorted(_REGISTERED)]


def disabled(name: str) -> bool:
    """Whether ``VALOR_GPU_DISABLE`` takes the CUDA kernel of op ``name`` away; the first call warns of what serves.

    Every route to a CUDA kernel that does not go through the dispatcher asks this.
    """
    served = _REGISTERED[name].cuda
    if served.disabled:
        native.warn_once(served.warning)
    return served.disabled


def reference(name: str) -> Kernel:
    """The plain-torch definition of op ``name``, as tests and benchmarks call it."""
    return _REGISTERED[name].reference
