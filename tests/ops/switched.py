"""Runs every op as a CUDA tensor would have it, in a process of its own: the simulator serves as the CUDA library.

``python -m tests.ops.switched`` prints JSON; the test sets VALOR_GPU_DISABLE. Ops are registered when the simulator is
there already, so that the dispatcher holds their CUDA kernels, as on a machine with a GPU.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from unittest import mock

import torch

from tests.native import sim
from valor_gpu import native

EXAMPLES = 4


@contextmanager
def noted() -> Iterator[list[str]]:
    """Within it the names of C functions of the CUDA library that are asked for go into the list."""
    called: list[str] = []

    def noting(find: Callable[..., Any]) -> Callable[..., Any]:
        def found(library: str, symbol: str) -> Any:
            called.extend([symbol] if library == "valor_cuda" else [])
            return find(library, symbol)

        found.cache_clear = getattr(find, "cache_clear", None)  # type: ignore[attr-defined]
        return found

    with (
        mock.patch.object(native, "function", noting(native.function)),
        mock.patch.object(native, "once_function", noting(native.once_function)),
    ):
        yield called


def one_op(name: str, called: list[str]) -> dict[str, Any]:
    """Runs examples of an op by its CUDA key: who serves, C functions, kernels, warnings, differences from the CPU."""
    from testing import registry

    row, op, wrong = registry.ROWS[name], registry.find(name), []
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    called.clear()
    sim.launches()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for example in islice(row.examples(True), EXAMPLES):
            if example.native_only:
                continue
            got = registry.call(name).redispatch(keys, *example.arguments)
            expected = registry.call(name)(*example.arguments)  # the C++ kernel
            wrong.append(registry.differences(*(registry._outputs(row, x, example) for x in (got, expected))))
    return {
        **{"kind": op.cuda.kind, "reason": op.cuda.reason, "disabled": op.cuda.disabled, "launches": op.launches},
        **{"called": sorted(set(called)), "kernels": sorted(set(sim.launches()))},
        **{"warnings": [str(each.message) for each in warned], "wrong": [text for text in wrong if text]},
    }


def main() -> None:
    """Prints a row for each op."""
    with sim.serving("valor_cuda", sim.simulated()), noted() as called:
        from valor_gpu.ops import backends

        print(json.dumps({op.name: one_op(op.name, called) for op in backends()}))


if __name__ == "__main__":
    main()
