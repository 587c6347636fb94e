"""pytest plugin of a GPU check: a line of JSON for each test, in a file that is whole whenever the run ends.

``pytest -p benchmarks.gpu_test_log`` with the environment variable :data:`LOG`, the path of the file, and
:data:`SCRATCH`, a folder. Tests that the file ``passed`` there names, one per line, are not run. A process whose device
no longer answers ends, so that pytest-xdist starts another one for the tests that are left; so does a process with a
test that takes :data:`TEST_SECONDS`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_process import die_with_parent

LOG = "VALOR_GPU_CHECK_TESTS"
SCRATCH = "VALOR_GPU_CHECK_SCRATCH"
TEST_SECONDS = float(os.environ.get("VALOR_GPU_CHECK_TEST_SECONDS", "60"))
"""A test that takes longer hangs."""
DEVICE_LOST = 70
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def _write(**entry: Any) -> None:
    """Appends a line in one write, since several processes do."""
    with Path(os.environ[LOG]).open("ab", buffering=0) as file:
        file.write(b"\n" + json.dumps(entry).encode())  # a line that a kill has cut must not take this one with it


def _scratch(name: str) -> Path:
    return Path(os.environ[SCRATCH], name)


def _stacks(worker: str) -> str:
    """Returns the stacks of the test that hung in a process of pytest-xdist, empty if none did."""
    path = _scratch(f"{worker}.stacks")
    return path.read_text() if path.exists() else ""


def pytest_configure() -> None:
    die_with_parent()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = set(_scratch("passed").read_text().splitlines())
    left = [item for item in items if item.nodeid not in passed]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    if _WORKER in ("", "gw0"):
        _write(left=[item.nodeid for item in left])
    items[:] = left


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed and not _WORKER:
        _write(test=report.nodeid, outcome="failed", detail=str(report.longrepr))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _write(begun=item.nodeid)
    with _scratch(f"{_WORKER or 'main'}.stacks").open("w") as file:
        faulthandler.dump_traceback_later(TEST_SECONDS, exit=True, file=file)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Under pytest-xdist, the process that ran the test has written it already."""
    if report.when == "???":  # a process of pytest-xdist has ended within this test
        hung = _stacks(report.node.gateway.id)
        how = f"no answer for {TEST_SECONDS:g} s\n{hung}" if hung else str(report.longrepr)
        _write(test=report.nodeid, outcome="crashed", detail=how)
    elif not hasattr(report, "node") and (report.when == "call" or not report.passed):
        _write(test=report.nodeid, outcome=report.outcome, detail=_detail(report))
        if report.failed:
            _end_if_lost()


def _detail(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return "" if report.passed else str(report.longrepr)


def _end_if_lost() -> None:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError):
        os._exit(DEVICE_LOST)
