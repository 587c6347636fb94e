"""``python -m benchmarks.gpu_check``: is valor_gpu right on this GPU, does ``update`` ever wait, how fast is it?

One command on a machine with its own torch, without a network: it builds the libraries for the GPU unless they are
there, then runs the sections, the most valuable first. The record is written ahead of each check and after it, so that
a kill loses nothing. Checks that passed by the record of the same device and sources are not run again. A check that
ends its process fails, and the others go on in a new one. The exit code is 0 if every check passed, 1 if one failed or
the libraries cannot be built, 3 if one was not run, as without a CUDA device, and 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu_build, gpu_process, gpu_sanitizer, machine
from benchmarks.gpu_record import Record, earlier_record, record_path, sources, store
from benchmarks.gpu_summary import INCOMPLETE, RED, summary
from benchmarks.gpu_supervisor import GRACE, Programs, supervise
from benchmarks.gpu_works import usual_works
from testing.datasets import ROOT

PACKAGES = ("valor_gpu", "torch", "triton", "numpy", "torchmetrics", "torchvision", "pycocotools", "faster-coco-eval")
NEEDED = {
    "pytest": "no test is run",
    "xdist": "tests run in one process",
    "pycocotools": "tests that compare with it skip themselves, and torchmetrics' average precision is not timed",
    "torchmetrics": "valor_gpu needs it",
    "triton": "the Triton kernel of count_logits is not checked",
}
"""Module to the consequence if it is not installed."""
SECTIONS = (
    *("parity", "tests", "unseen", "waiting", "graphs", "nccl"), *("timing", "classification", "masks"), "sanitizer",
)  # fmt: skip
DISABLE = "VALOR_GPU_DISABLE"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KEPT = ROOT / "build" / "gpu_check"
"""Folder of copies of records and logs, from which a later part goes on where its own folder has none."""
MOST_BYTES = 8 << 20
"""Of a log: machines that are lent give back files of a limited size."""
FINISH = 8.0
"""Seconds of a part that are left for its summary."""
RESERVE = 60.0
"""Seconds that the tests leave to the sections behind them."""


@dataclass(frozen=True)
class Part:
    """A part of the check that fits into one loan of a machine.

    Attributes:
        sections: names.
        quick: fewer and smaller examples.
        seconds: from its start to its end.
    """

    sections: tuple[str, ...]
    quick: bool
    seconds: float


PARTS = {
    1: Part(SECTIONS[:6], True, 240.0),
    2: Part(SECTIONS[6:9], False, 300.0),
    3: Part(SECTIONS[9:], False, 120.0),
}
WHOLE = Part(SECTIONS, False, 580.0)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__.split("\n")[0])
    add = made.add_argument
    add(
        "--part", type=int, choices=PARTS, help="1: is it right, 2: how fast is it, 3: compute-sanitizer; in this order"
    )
    add("--quick", action="store_true", help="fewer and smaller examples, 500 images, 50,000 rows of scores")
    add("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=f"sections to run: {', '.join(SECTIONS)}")
    add("--check", nargs="+", default=[], metavar="NAME", help="of these sections, only the checks of these names")
    add("--seconds", type=float, help="in all; 240, 300 and 120 for the parts, else 580")
    add("--started", type=float, help="Unix time at which the part began, if before this program")
    add(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu: rehearse the check with tiny data, without a GPU",
    )
    add("--results", type=Path, help="folder of the record and of its logs; default: benchmarks/results")
    add("--commit", help="of this checkout, where neither git nor the build can tell")
    add("--small-case", choices=gpu_sanitizer.HALVES, help=argparse.SUPPRESS)
    add("--record", type=Path, help=argparse.SUPPRESS)  # of a process that this one has started
    add("--alone", action="store_true", help=argparse.SUPPRESS)
    add("--deadline", type=float, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Builds, checks, stores; see the module."""
    arguments = parser().parse_args(argv)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(f"gpu_check: no CUDA device, so nothing was run: {no_device()}", flush=True)
        return INCOMPLETE
    if disabled := os.environ.get(DISABLE):
        print(f"gpu_check: {DISABLE} must not be set, since it takes kernels away, but is {disabled!r}", flush=True)
        return 2
    if arguments.small_case:
        return gpu_sanitizer.small_case(_device(arguments), arguments.small_case)
    if arguments.record or arguments.alone:
        return _inner(arguments)
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("gpu_check: another one runs in this checkout: wait for its end, or stop it", flush=True)
            return 2
        with signal_handlers_restored():
            return _supervised(arguments)


@contextlib.contextmanager
def signal_handlers_restored() -> Iterator[None]:
    """Restores, at its end, the handlers of the signals that stop a check."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def no_device() -> str:
    """Returns the reason why torch has no CUDA device."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} was built without CUDA"
    driver = machine.run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return (
        f"torch {torch.__version__} has CUDA {torch.version.cuda} but finds no device; nvidia-smi: {driver or 'fails'}"
    )


def _supervised(arguments: argparse.Namespace) -> int:
    """Builds, runs the sections in other processes, stores."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # a connection that is lost must leave no program on the device
        signal.signal(number, signal.default_int_handler)
    arguments.results = arguments.results or (KEPT if arguments.device == "cpu" else machine.RESULTS)
    started = arguments.started or gpu_process.start_of_process()
    part = PARTS[arguments.part] if arguments.part else WHOLE
    arguments.quick |= part.quick
    names = [name for name in SECTIONS if name in (arguments.only or part.sections)]
    deadline = started + (arguments.seconds or part.seconds) - FINISH
    print(missing(), flush=True)
    record, path = begin(arguments, names)
    try:
        record["build"] = build(arguments, deadline - time.time())
        print(record["build"], flush=True)
        store(record, path)
        record = supervise(path, names, programs(arguments, path), deadline)
    except gpu_build.BuildError as error:
        store({**record, "build": f"failed: {error}"}, path)
        print(f"{error}\nRED: the libraries cannot be built\nrecord: {path}", flush=True)
        return RED
    except KeyboardInterrupt:
        record = {**_latest(path, record), "stopped": "by a signal"}
    except OSError as error:  # a disk that is full
        record = {**_latest(path, record), "stopped": f"by an error: {error}"}
    return finish(record, path, started)


def _latest(path: Path, record: Record) -> Record:
    """The record as the processes have left it, else as it was at the start."""
    try:
        found: Record = json.loads(path.read_text())
    except (OSError, ValueError):
        return record
    return found


def build(arguments: argparse.Namespace, left: float) -> str:
    """Builds the libraries for the GPU in the seconds that are left, unless they are there; returns a line about it."""
    if arguments.device == "cpu":
        return "a rehearsal on the CPU: nothing is built, and no timing is a GPU's"
    return gpu_build.build(torch.cuda.get_device_capability(), seconds=max(1.0, min(gpu_build.SECONDS, left)))


def missing() -> str:
    """Returns one line about the packages that are not installed."""
    found = [f"{name} ({why})" for name, why in NEEDED.items() if importlib.util.find_spec(name) is None]
    return (
        f"not installed: {', '.join(found)}" if found else "pytest, pycocotools, torchmetrics and triton are installed"
    )


def begin(arguments: argparse.Namespace, names: Sequence[str]) -> tuple[Record, Path]:
    """Returns the record to go on with, and its path: the newest of this device and these sources, or a new one."""
    head = {"kind": "gpu", **machine.describe(PACKAGES, arguments.commit), "sources": sources()}
    head |= {"device": device_facts(arguments), "runs": [], "sections": {}, "running": None}
    record = earlier_record(head, (arguments.results, KEPT, machine.RESULTS))
    if record is not None:
        print(f"goes on with the record of {record['date']}", flush=True)
        known = head["commit"] if record["commit"] == "unknown" else record["commit"]
        head = {**record, "running": None, "commit": known}
        head.pop("stopped", None)
    path = record_path(head, arguments.results)
    if record is None and path.exists():  # it is damaged, or of another version
        path.replace(path.with_suffix(".old"))
    log = KEPT / f"{path.stem}.tests.jsonl"
    if log.exists() and "tests" in names and not path.with_name(log.name).exists():
        shutil.copy(log, path.parent)
    run = {"date": machine.now(), "asked": list(names), "quick": arguments.quick, "part": arguments.part}
    head["runs"] = [*head["runs"], {**run, "chosen": arguments.check}]
    return head, path


def finish(record: Record, path: Path, started: float) -> int:
    """Stores the record, here and among the copies, and prints its summary; returns the exit code."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    record["runs"][-1]["seconds"] = round(time.time() - started, 1)
    with contextlib.suppress(OSError):
        store(record, path)
        path.with_suffix(".stacks").unlink(missing_ok=True)  # in the record
        for log in path.parent.glob(f"{path.stem}.*"):
            _trim(log)
            if path.parent != KEPT and log.exists():
                shutil.copy(log, KEPT)
    text, code = summary(record)
    print(f"{text}\nrecord: {path}", flush=True)
    return code


def _trim(log: Path) -> None:
    """Keeps the end of a log that is too long to be brought back, and nothing of an empty one."""
    if (size := log.stat().st_size) == 0:
        log.unlink()
    elif size > MOST_BYTES and log.suffix == ".log":
        with log.open("rb") as file:
            file.seek(-MOST_BYTES, os.SEEK_END)
            end = file.read()
        log.write_bytes(end)


def programs(arguments: argparse.Namespace, path: Path) -> Programs:
    """Returns what a supervisor starts: this module again."""
    head = [sys.executable, "-u", "-m", "benchmarks.gpu_check", "--device", arguments.device]
    head += ["--quick"] if arguments.quick else []
    head += ["--check", *arguments.check] if arguments.check else []
    errors = path.with_name(f"{path.stem}.errors.log")

    def sections(names: Sequence[str], seconds: float, give_up: Any) -> gpu_process.Ended:
        end = time.time() + seconds - GRACE
        command = [*head, "--record", str(path), "--deadline", str(end), "--only", *names]
        return gpu_process.run(command, seconds, errors, show=True, give_up=give_up)

    def diagnose(section: str, name: str, seconds: float) -> str:
        seconds = min(seconds, gpu_sanitizer.DIAGNOSIS_SECONDS)
        end = time.time() + seconds - GRACE
        alone = [*head, "--alone", "--deadline", str(end), "--only", section, "--check", name]
        return gpu_sanitizer.diagnose(alone, seconds, path.with_suffix(""))

    return Programs(sections, diagnose, path.with_suffix(".stacks"))


def _inner(arguments: argparse.Namespace) -> int:
    """Runs sections into the record, or one check alone without any."""
    from benchmarks import gpu_sections  # it loads the libraries, which had to be built first
    from benchmarks.gpu_classification import load_for
    from valor_gpu.ops import backends

    faulthandler.enable()
    path: Path | None = arguments.record
    if path:  # a check that runs alone may have a launcher of compute-sanitizer as its parent, which may end first
        gpu_process.die_with_parent()
    record: Record = json.loads(path.read_text()) if path else {"runs": [{}], "sections": {}}
    record["kernels"] = {op.name: {"kind": op.cuda.kind, "reason": op.cuda.reason} for op in backends()}
    behind, device = bool({"unseen", "waiting", "graphs", "nccl"} & set(arguments.only)), _device(arguments)
    setup = gpu_sections.Setup(
        device,
        arguments.quick,
        lambda: usual_works(device, arguments.quick),
        load_for(device, arguments.quick),
        deadline=arguments.deadline,
        reserve=RESERVE if behind else 0.0,
        watched=path.with_suffix(".stacks") if path else Path("/dev/stderr"),
        logs=path.with_suffix("") if path else None,
        chosen=frozenset(arguments.check) or None,
    )
    gpu_sections.run_sections(arguments.only, setup, record, lambda now: store(now, path) if path else None)
    made = [check for section in record["sections"].values() for check in section["checks"]]
    return 0 if path else INCOMPLETE if not made else int(any(check["outcome"] != "pass" for check in made))


def _device(arguments: argparse.Namespace) -> torch.device:
    return torch.device("cpu") if arguments.device == "cpu" else torch.device("cuda", torch.cuda.current_device())


def device_facts(arguments: argparse.Namespace) -> dict[str, Any]:
    """Name, driver and size of the CUDA device."""
    if arguments.device == "cpu":
        return {"name": "rehearsal", "driver": "none"}
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    driver = machine.run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "name": about.name,
        "devices": torch.cuda.device_count(),
        "driver": driver.splitlines()[0] if driver else "unknown",
        "capability": f"{about.major}.{about.minor}",
        "memory_gb": round(about.total_memory / 2**30, 1),
        "processors": about.multi_processor_count,
        "torch_cuda": torch.version.cuda,
    }


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # whatever a broken device does to the end of a process, its checks are recorded
