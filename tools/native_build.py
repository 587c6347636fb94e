"""Runs the commands that make one native library: by ninja those that are needed, without ninja all of them.

setup.py calls this. A tree is a folder that keeps the object files of one library between builds. ninja compares
commands and times of files; ``-MMD`` tells it the headers. The version of a compiler is part of each command. A copied
tree is made anew, and so are the objects of a source that changed without becoming newer than the tree.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

OLDEST_NINJA = (1, 11)
"""The first that has ``--quiet``."""
LOG, SEEN, GRAPH = "log.txt", "seen.json", "build.ninja"
_LINKER = re.compile(r"multiple definition of|undefined reference to|(?i:undefined symbol|duplicate symbol)")
_ERROR = re.compile(r"\b(?:error|fatal)\s*:")
_NO_REASON = ("collect2:", "clang: error: linker command failed", "ninja:")


class BuildFailedError(Exception):
    """A library cannot be built.

    Attributes:
        log: the whole output of the commands; None if none was run.
    """

    def __init__(self, reason: str, log: Path | None = None) -> None:
        super().__init__(reason)
        self.log = log


class Command(NamedTuple):
    """A command that makes one file of others."""

    words: Sequence[str]
    inputs: Sequence[str]
    output: str
    compiles: bool = True


class Plan(NamedTuple):
    """The commands that make a library.

    Attributes:
        tool: what failed if a command fails, for instance ``nvcc``.
        version: of the tools; another one makes all files anew.
        jobs: commands that run at the same time.
        commands: the link is the last one and makes the library.
        tree: folder of all outputs.
        facts: what the record of the build says of the library.
    """

    tool: str
    version: str
    jobs: int
    commands: Sequence[Command]
    tree: Path
    facts: dict[str, object]


def output_of(*command: str) -> list[str]:
    """Returns the lines that a command prints; none if it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def find_ninja() -> str | None:
    """Returns the path of ninja: that of NINJA, of this Python or in PATH; None if it is missing or too old."""
    own = Path(sysconfig.get_path("scripts"), "ninja")
    found = os.environ.get("NINJA") or (str(own) if own.exists() else shutil.which("ninja"))
    version = re.match(r"(\d+)\.(\d+)", next(iter(output_of(found, "--version")), "")) if found else None
    return found if version and tuple(map(int, version.groups())) >= OLDEST_NINJA else None


def build(plan: Plan, root: Path, ninja: str | None, target: Path, *, anew: bool = False) -> None:
    """Makes a library in its tree and copies it to its place.

    Args:
        plan: of the library; its paths are absolute or relative to ``root``.
        root: folder of the sources, where the commands are run.
        ninja: path of ninja; None runs all commands without it.
        target: the place of the library.
        anew: whether to compile everything.

    Raises:
        BuildFailedError: a command failed. What lies at ``target`` is as it was.
    """
    tree = root / plan.tree
    tree.mkdir(parents=True, exist_ok=True)
    with _alone(tree) as lock:
        hidden = None if anew else _hidden_changes(tree, root)
        if hidden is None:
            if not anew and os.environ.get("VALOR_GPU_EXPLAIN") == "1":
                print(f"{plan.tree}: all is compiled, since it was copied", file=sys.stderr)
            shutil.rmtree(tree)
            tree.mkdir()
        elif hidden and ninja:
            _remove_objects(plan, root, ninja, hidden)
        (tree / SEEN).write_text(json.dumps({"root": str(root), "files": _states(root)}))
        code, output = _run_by_ninja(plan, root, ninja, lock) if ninja else _run_all(plan, root)
        os.utime(tree / SEEN)  # a source that is saved from now on is newer than all objects
        (tree / LOG).write_text(output)
        sys.stderr.write(output)
        if code:
            reason = first_useful_line(output) or f"exit status {code}"
            raise BuildFailedError(f"{plan.tool} failed: {reason}", tree / LOG)
        _publish(root / plan.commands[-1].output, target)


def _publish(library: Path, target: Path) -> None:
    """Puts a complete library in the place of the one before, which a process may be using."""
    scratch = target.with_name(f".{os.getpid()}.{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy(library, scratch)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def _alone(tree: Path) -> Iterator[list[int]]:
    """Keeps a second build out of a tree; gives the descriptors that keep it out as long as a process has them."""
    try:
        import fcntl
    except ImportError:  # Windows, where the C++ library does not compile
        yield []
        return
    with tree.with_name(f"{tree.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield [lock.fileno()]


def _states(root: Path) -> dict[str, list[int]]:
    """Returns the time and the checksum of every native source and header."""
    found = (path for path in (root / "csrc").rglob("*") if path.suffix in (".h", ".cpp", ".cu"))
    return {str(path.relative_to(root)): [path.stat().st_mtime_ns, zlib.crc32(path.read_bytes())] for path in found}


def _hidden_changes(tree: Path, root: Path) -> set[str] | None:
    """Returns the sources that have changed although they are no newer than a tree; None if all may have.

    ``rsync -a`` brings a changed source with its earlier time, and a source may be saved during a build. In a copy of a
    checkout no time says anything.
    """
    try:
        seen = json.loads((tree / SEEN).read_text())
        before = (tree / SEEN).stat().st_mtime_ns
    except (OSError, ValueError):
        return None if (tree / GRAPH).exists() else set()
    changed = {name: state[0] for name, state in _states(root).items() if seen["files"].get(name) != state}
    return {name for name, time in changed.items() if time <= before} if seen["root"] == str(root) else None


def _remove_objects(plan: Plan, root: Path, ninja: str, sources: set[str]) -> None:
    """Removes the objects that were compiled from some sources or headers; all, if ninja cannot tell the headers."""
    known = output_of(ninja, "-C", str(root), "-f", str(plan.tree / GRAPH), "-t", "deps")
    users = {command.output for command in plan.commands if not known or sources & set(command.inputs)}
    output = ""
    for line in known:
        if not line.startswith(" "):
            output = line.partition(": #deps")[0]
        elif line.strip() in sources:
            users.add(output)
    for each in sorted(users):
        if os.environ.get("VALOR_GPU_EXPLAIN") == "1":
            print(f"{each} is compiled: its source changed but is no newer", file=sys.stderr)
        (root / each).unlink(missing_ok=True)


def _run_by_ninja(plan: Plan, root: Path, ninja: str, lock: Sequence[int]) -> tuple[int, str]:
    """Runs the commands whose outputs are out of date; returns exit code and output.

    ninja and the compilers hold the lock as well: they may outlive this process, and write on.
    """
    graph = root / plan.tree / GRAPH
    graph.write_text(ninja_graph(plan))
    explain = ["-d", "explain"] if os.environ.get("VALOR_GPU_EXPLAIN") == "1" else ["--quiet"]
    command = [ninja, *explain, "-j", str(plan.jobs), "-f", str(graph)]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", pass_fds=lock
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)  # a killed ninja would leave its compilers
            process.communicate()
            raise
    return process.returncode, output


def ninja_graph(plan: Plan) -> str:
    """Returns the text of ``build.ninja``. A changed command runs again, and the version is a comment in each."""
    lines = [f"ninja_required_version = {'.'.join(map(str, OLDEST_NINJA))}", f"builddir = {_escaped(str(plan.tree))}"]
    lines += ["rule compile", "  command = $words", "  description = $out", "  depfile = $out.d", "  deps = gcc"]
    lines += ["rule link", "  command = $words", "  description = $out"]
    comment = " ".join(plan.version.split())
    for command in plan.commands:
        rule, inputs = "compile" if command.compiles else "link", " ".join(map(_escaped, command.inputs))
        words = f"{shlex.join(command.words)} # {comment}".replace("$", "$$")
        lines += [f"build {_escaped(command.output)}: {rule} {inputs}", f"  words = {words}"]
    return "\n".join(lines) + "\n"


def _escaped(path: str) -> str:
    return re.sub(r"[$ :]", r"$\g<0>", path)


def _run_all(plan: Plan, root: Path) -> tuple[int, str]:
    """Runs every command, several at a time; returns the first exit code that is not 0, and the output."""

    def run(command: Command) -> tuple[int, str]:
        done = subprocess.run(
            command.words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    ended = []
    for compiles in (True, False):
        with ThreadPoolExecutor(plan.jobs) as pool:
            ended += list(pool.map(run, (each for each in plan.commands if each.compiles == compiles)))
        if any(code for code, _ in ended):
            break
    return next((code for code, _ in ended if code), 0), "".join(output for _, output in ended)


def first_useful_line(output: str) -> str:
    """Returns the line of a compiler or linker that says what is wrong; without one, the last that they printed."""
    said, lines = [], iter(output.splitlines())
    for line in lines:
        if line.startswith("FAILED: "):  # by ninja, and the command after it
            next(lines, None)
        elif line.strip():
            said.append(line.strip())
    told = [line for line in said if not line.startswith(_NO_REASON)]
    useful = (line for line in told if _LINKER.search(line) or _ERROR.search(line))
    return next(useful, next((line for line in said if _ERROR.search(line)), told[-1] if told else ""))
