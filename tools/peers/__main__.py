"""``make peers TORCHMETRICS=DIR``: runs torchmetrics' tests against valor_gpu and compares with the table.

Exit codes: 0, all is as the table says; 1, an unexpected failure or a row that is not needed any more; 2, the tests
could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tools.peers import OUTCOMES, SAMPLE
from tools.peers.compare import Outcome, compare, lines_of
from tools.peers.copies import copy_tests
from tools.peers.table import TABLE, read_table

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "peers"
RELEASE = "1.9.0"
"""The release of torchmetrics that the table is about."""
SUITES = ("detection", "regression", "retrieval", "segmentation", "text", "classification", "wrappers", "bases")
LEFT_OUT = {
    "text/test_bertscore.py": "downloads models",
    "text/test_infolm.py": "downloads models",
    "segmentation/test_utils.py": "tests helpers of torchmetrics",
    "wrappers/test_feature_share.py": "needs networks for images",
    "bases/test_ddp.py": "needs a pool of processes, which is not started",
}
"""Files that are not run, and why."""
GET = f"git clone --depth 1 --branch v{RELEASE} https://github.com/Lightning-AI/torchmetrics"


class CannotRun(Exception):
    """Raised with the reason why there is nothing to compare."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        checkout = checked_checkout(options.checkout)
        table = read_table(TABLE.read_text(encoding="utf-8"))
        outcomes = run(checkout, options.folder, options.suites, options.sample, options.jobs)
    except CannotRun as error:
        print(error)
        return 2
    found = compare(outcomes, table, whole=options.sample == 1)
    print(f"\ntorchmetrics {RELEASE}, tests of {', '.join(options.suites)}, {options.sample:.0%} of them")
    print("left out: tests with ddp=True (the pool is not started)", end="")
    print(*(f"; {file} ({why})" for file, why in LEFT_OUT.items() if file.split("/")[0] in options.suites), sep="")
    print(*lines_of(found, table), sep="\n")
    return 0 if found.is_as_expected else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=__doc__)
    parser.add_argument("checkout", nargs="?", help=f"checkout of torchmetrics {RELEASE}")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES), help="folders of tests (all)")
    parser.add_argument("--sample", type=_share, default=1.0, help="share of the tests, drawn by the hash of the id")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where copies and outcomes go (build/peers)")
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1 but got {text}")
    return value


def checked_checkout(given: str | None) -> Path:
    """Returns the checkout; raises CannotRun unless it and the installed package are the release of the table."""
    if not given:
        raise CannotRun(f"TORCHMETRICS must be a checkout of torchmetrics {RELEASE} but none was given: {GET}")
    checkout = Path(given).resolve()
    about = checkout / "src" / "torchmetrics" / "__about__.py"
    if not about.is_file() or not (checkout / "tests" / "unittests").is_dir():
        raise CannotRun(f"TORCHMETRICS must be a checkout of torchmetrics {RELEASE} but {given} is none: {GET}")
    found = re.search(r'__version__ = "([^"]+)"', about.read_text(encoding="utf-8"))
    versions = {"the checkout": found[1] if found else "unknown", "the installed package": version("torchmetrics")}
    for name, came in versions.items():
        if came != RELEASE:
            raise CannotRun(f"{name} must be torchmetrics {RELEASE}, which the table is about, but is {came}")
    return checkout


def run(checkout: Path, place: Path, suites: Sequence[str], sample: float, jobs: int) -> list[Outcome]:
    """Runs copies of the tests in a process of their own; returns what became of each.

    Args:
        checkout: of torchmetrics.
        place: folder for the copies and the outcomes.
        suites: folders of tests.
        sample: share of the tests that are run.
        jobs: processes.
    """
    folder, record = place / "tests", place / "outcomes.jsonl"
    copy_tests(checkout, folder)
    record.write_text("", encoding="utf-8")
    done = subprocess.run(
        command(suites, jobs),
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            OUTCOMES: str(record),
            SAMPLE: str(sample),
        },
        check=False,
    )
    outcomes = [Outcome(**json.loads(line)) for line in record.read_text(encoding="utf-8").splitlines()]
    if done.returncode not in (0, 1, 5) and not any(each.outcome == "not collected" for each in outcomes):
        raise CannotRun(f"pytest ended with code {done.returncode} before the tests did")
    if not outcomes:
        raise CannotRun("no test was drawn: give more --suites or a larger --sample")
    return outcomes


def command(suites: Sequence[str], jobs: int) -> list[str]:
    """Returns the command that runs the copied tests."""
    plugins = ("no:randomly", "no:cacheprovider", "no:benchmark", "tools.peers.plugin")
    return [
        *(sys.executable, "-m", "pytest", "-q", "-m", "not DDP", "--continue-on-collection-errors"),
        *("--tb=no", "--no-summary", "--disable-warnings"),
        *(part for plugin in plugins for part in ("-p", plugin)),
        *(("-n", str(jobs), "--dist", "loadfile") if jobs > 1 else ()),
        *(f"--ignore=unittests/{file}" for file in LEFT_OUT),
        *(f"unittests/{suite}" for suite in suites),
    ]


if __name__ == "__main__":
    sys.exit(main())
