"""For every test: the ``device`` fixture, and memory that is never zero by luck."""

from __future__ import annotations

import bdb
import gc
import io
import logging
import math
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tests  # noqa: F401  (it prepares the imports of all others)
from tests.devices import CUDA
from tests.logs import be_strict, logged
from tests.native import sim
from tests.watchdog import Watchdog

pytest.register_assert_rewrite("tests.contract", "tests.contract_checks", "tests.contract_ranks", "tests.ddp")

# A process that was started in the background of a script ignores interrupts, and so would those that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # nothing of what is collected is garbage, and to look for some takes seconds

collect_ignore = ["browser"]  # a process of its own, by tools/browser.py: Playwright leaves an event loop in its thread

WATCHDOG = pytest.StashKey[Watchdog]()

# The longest files, longest first: where files are split over processes, none of them is left for the end.
LONGEST = ("native/test_sanitized.py", "test_contract.py", "test_packaging.py", "test_docs.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the longest files to the front; every other file keeps its place."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_configure(config: pytest.Config) -> None:
    sim.skips_known = True
    be_strict()
    config.add_cleanup(gc.unfreeze)


def pytest_collection_finish() -> None:
    """From here on collect garbage, but not among the thousands of modules and tests, and not every 700 objects."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def _watchdog(config: pytest.Config) -> Watchdog:
    """Returns the watchdog of this process, which writes to the standard error that pytest captures."""
    if (found := config.stash.get(WATCHDOG, None)) is None:
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            found = config.stash[WATCHDOG] = Watchdog(os.dup(2))
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Ends the process if a test outlasts its time limit, although pytest-timeout has interrupted it."""
    marker = item.get_closest_marker("timeout")
    if not (limit := marker.args[0] if marker else item.config.getoption("timeout", None)):
        return (yield)
    watchdog = _watchdog(item.config)
    watchdog.expect(limit)
    try:
        return (yield)
    finally:
        watchdog.expect(math.inf)


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Lets a debugger take its time."""
    if (watchdog := config.stash.get(WATCHDOG, None)) is not None:
        watchdog.expect(math.inf)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Leaves out of each report the names of marks and fixtures, which xdist would send although nobody reads them."""
    report: Any = yield
    report.keywords = {}
    return report  # type: ignore[return-value]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fails a test after which Ctrl-C is handled otherwise: programs that later tests start would inherit that."""
    try:
        yield
    finally:
        handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if handler is not signal.default_int_handler and not isinstance(getattr(handler, "__self__", None), bdb.Bdb):
        raise AssertionError(f"the test must leave the handler of SIGINT as it was but left {handler!r}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out without a mark, and how to repeat the order."""
    if (seed := terminalreporter.config.getoption("randomly_seed", None)) is not None:
        terminalreporter.write_line(f"order of the tests: SEED={seed}")
    if terminalreporter.config.getoption("markexpr", "") == "not slow":
        terminalreporter.write_line("the tests marked slow were not run: SLOW=1 runs them as well")
    if not CUDA:
        terminalreporter.write_line("no CUDA device: the tests that need one were not run")


@pytest.fixture
def caplog() -> None:
    """Stands where pytest's own would fail without a reason."""
    pytest.fail("the fixture caplog needs pytest's plugin for logging, which is off: use the fixture log")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All messages of loggers, of any level."""
    with logged(logging.NOTSET) as text:
        yield text


@pytest.fixture(params=["cpu", *CUDA])
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU, and the first CUDA device where there is one."""
    return torch.device(request.param, 0) if request.param == "cuda" else torch.device("cpu")


def _poisoned(allocate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``allocate``, filled: NaN for floats, the largest value for integers and True for bools."""

    def filled(*args: Any, **kwargs: Any) -> torch.Tensor:
        out = allocate(*args, **kwargs)
        if torch.compiler.is_compiling() or type(out) is not torch.Tensor or out.device.type == "meta":
            return out
        if out.is_floating_point() or out.is_complex():
            return out.fill_(torch.nan)
        return out.fill_(True if out.dtype == torch.bool else torch.iinfo(out.dtype).max)

    return filled


@pytest.fixture(scope="session", autouse=True)
def poison_fresh_memory() -> Iterator[None]:
    """What a kernel or an op forgets to write is garbage in every run.

    torch fills fresh memory only in deterministic mode, which would also hide sums whose order is not fixed.
    """
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (torch, "empty"),
            (torch, "empty_like"),
            (torch, "empty_strided"),
            (torch.Tensor, "new_empty"),
        ):
            patch.setattr(owner, name, _poisoned(getattr(owner, name)))
        yield
