"""pytest plugin: runs tests with sanitizer builds of every native library, and fails if a C function is never reached.

Loaded by tests/native/test_sanitized.py with ``-p``, in a process that preloads the sanitizers.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.native import sim
from valor_gpu import native, native_objects
from valor_gpu._declarations import Declarations

_reached: set[str] = set()


def _missing() -> list[str]:
    read = [Declarations.read(library, str(sim.ROOT)) for library in ("valor_cpu", "valor_cuda")]
    exported = {name for each in read if each for name in each.calls} - {"valor_declarations"}
    return sorted(exported - _reached)


def _smoke(test: object) -> bool:
    """Whether a test or module, or a case of it, is marked smoke."""
    marks = getattr(test, "pytestmark", [])
    for mark in marks if isinstance(marks, list) else [marks]:
        cases = mark.args[1] if mark.name == "parametrize" and isinstance(mark.args[1], (list, tuple)) else ()
        if mark.name == "smoke" or any(each.name == "smoke" for case in cases for each in getattr(case, "marks", ())):
            return True
    return False


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[pytest.Item] | None:
    """Pass over tests without a mark before their cases are made, thousands of them."""
    skipped = inspect.isfunction(obj) and name.startswith("test") and not (_smoke(obj) or _smoke(collector.obj))
    return [] if skipped else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when an exported C function was not called by any test."""
    if _missing() and not session.testsfailed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which C functions no test calls."""
    if _missing():
        terminalreporter.write_line(f"no test marked smoke calls {', '.join(_missing())}")


def _noted(bind: Callable[[str, str], Any]) -> Any:
    """``bind``, for functions that are called as soon as they are bound."""

    @functools.wraps(bind)
    def noted(library: str, symbol: str) -> Any:
        _reached.add(symbol)
        return bind(library, symbol)

    return noted


def serve_sanitized() -> None:
    """Serve sanitizer builds; before any op looks for its library."""
    load = native._load
    sim.sanitizing = True
    native._load = lambda name: (sim.sanitized_cpu(), "sanitized") if name == "valor_cpu" else load(name)  # type: ignore[assignment]


def pytest_configure() -> None:
    """Serve sanitizer builds, and note which functions are called."""
    serve_sanitized()
    # torchmetrics imports the torchvision that it finds, which takes seconds here, and no test marked smoke uses it.
    sys.path[:] = [folder for folder in sys.path if Path(folder).name != "oracle"]
    bind, bind_update = native.function, native.update_function

    def recording(library: str, symbol: str) -> native.Function:
        entry = bind(library, symbol)

        @functools.wraps(entry)
        def call(*arguments: object) -> int:
            _reached.add(symbol)
            return entry(*arguments)

        return call

    recording.cache_clear = bind.cache_clear  # type: ignore[attr-defined]
    native.function = recording  # type: ignore[assignment]
    native.once_function = _noted(native.once_function)
    native_objects.function = _noted(native_objects.function)

    def recording_update(library: str, symbol: str) -> Callable[[bytes, bytes], int] | None:
        entry = bind_update(library, symbol)
        if entry is None:
            return None

        def call(words: bytes, addresses: bytes) -> int:
            _reached.add(symbol)
            return entry(words, addresses)

        return call

    recording_update.cache_clear = bind_update.cache_clear  # type: ignore[attr-defined]
    native.update_function = recording_update  # type: ignore[assignment]
