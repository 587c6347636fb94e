"""pytest plugin: runs tests with sanitizer builds of every native library, and fails if a C function is never reached.

Loaded by tests/native/test_sanitized.py with ``-p``, in a process that preloads the sanitizers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.native import sim
from tests.native.prototypes import prototypes
from valor_gpu import native

_reached: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Fail when an exported C function was not called by any test."""
    result = yield
    missing = {name for folder in ("cpu", "cuda") for name in prototypes(folder)} - _reached - {"valor_abi_version"}
    if missing and not session.testsfailed:
        raise session.Failed(f"no smoke test calls {', '.join(sorted(missing))}")
    return result


def pytest_configure() -> None:
    """Serve sanitizer builds before any op looks for its library."""
    sim.sanitizing = True
    bind, load = native.function, native._load
    native._load = lambda name: (sim.sanitized_cpu(), "sanitized") if name == "valor_cpu" else load(name)  # type: ignore[assignment]

    def recording(library: str, symbol: str, signature: str) -> native.Function:
        entry = bind(library, symbol, signature)

        @functools.wraps(entry)
        def call(*arguments: object) -> int:
            _reached.add(symbol)
            return entry(*arguments)

        return call

    recording.cache_clear = bind.cache_clear  # type: ignore[attr-defined]
    native.function = recording  # type: ignore[assignment]
