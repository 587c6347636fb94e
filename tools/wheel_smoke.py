"""``make wheel-smoke``: installs a wheel into empty environments and follows the first lines of the README there.

One environment has NumPy alone, the other torch and torchmetrics too, each with all that they need and nothing else. A
package that the wheel imports and pyproject.toml does not name is missing there. The packages are links to those of the
Python that runs this: a test must not download 200 MB. With ``--download`` pip installs them instead.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path

from tools.commands import ROOT, CheckError, run

MODULES = 50
"""Most modules that ``import valor_gpu`` may load: five of its own, and others of the standard library."""
HEAVY = ("numpy", "torch", "torchmetrics")
"""Packages that ``import valor_gpu`` must not load."""
DATA = ROOT / "examples/data"
FILES = DATA / "instances_val2014_100.json", DATA / "instances_val2014_fakebbox100_results.json"
PRECISION = " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.505"
"""What pycocotools prints for FILES."""

_IMPORT = """
import sys, time
before, start = set(sys.modules), time.process_time()
import valor_gpu
seconds, loaded = time.process_time() - start, sorted(set(sys.modules) - before)
print(seconds, valor_gpu.__file__, *loaded)
"""
_REPEATS = 5
"""Processes that import the package, the fastest of which is shown: the first one reads cold files."""


def first_example(readme: str) -> tuple[str, str]:
    """Returns the first block of Python of a text, and the output shown below it."""
    found = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise CheckError("README.md must have a block of Python with its output below it")
    return found[1], found[2]


def needed(names: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Returns the installed distributions of the given names and of all their dependencies, without extras."""
    from packaging.requirements import Requirement  # a dependency of torchmetrics: absent where pip downloads

    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found[name] = metadata.distribution(name)
        required = map(Requirement, found[name].requires or ())
        waiting += [each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def link(distributions: Iterable[metadata.Distribution], site: Path) -> None:
    """Makes distributions importable from ``site`` by links to their top-level files and folders."""
    for each in distributions:
        for name in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            if not (site / name).exists():  # folders that several distributions share
                (site / name).symlink_to(str(each.locate_file(name)))


def environment(folder: Path, wheel: Path, names: Sequence[str], download: bool) -> Path:
    """Returns the Python of a new environment that holds a wheel, ``names`` and what these need.

    Args:
        folder: Where the environment is made.
        wheel: The wheel to install.
        names: Distributions to provide beside it; without torch the wheel's own requirements are not met.
        download: Whether pip installs them, with the wheel's requirements where torch is among them. Otherwise they
            are links to the distributions of this Python.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin/python"
    install = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "-q")
    if download and "torch" in names:
        run(*install, wheel)
    else:
        run(*install, "--no-deps", wheel)
        if download:
            run(*install, *names)
        else:
            site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
            link(needed(names).values(), Path(site))
    return python


def check_import(python: Path, folder: Path) -> str:
    """Returns a line on what ``import valor_gpu`` costs, which is limited in modules and not in seconds."""
    seconds = []
    for _ in range(_REPEATS):
        time, file, *loaded = run(python, "-c", _IMPORT, cwd=folder, PYTHONPATH="").split()
        seconds.append(float(time))
    if not Path(file).is_relative_to(python.parents[1]):
        raise CheckError(f"valor_gpu must come from the wheel but came from {file}")
    if heavy := [name for name in loaded if name in HEAVY]:
        raise CheckError(f"import valor_gpu must load none of {', '.join(HEAVY)} but loads {', '.join(heavy)}")
    if len(loaded) > MODULES:
        raise CheckError(
            f"import valor_gpu must load at most {MODULES} modules but loads {len(loaded)}: {' '.join(loaded)}"
        )
    return f"import valor_gpu: {len(loaded)} modules, {1000 * min(seconds):.1f} ms of CPU time"


def check_detect(python: Path, folder: Path) -> str:
    """Evaluates COCO files by the command where torch cannot be imported."""
    absent = run(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))", cwd=folder, PYTHONPATH="")
    if absent != "None\n":
        raise CheckError(f"torch must be absent here but is found: {absent.strip()}")
    command = (python.parent / "valor-gpu", "detect", "--gt", FILES[0], "--dt", FILES[1])
    shown = run(*command, cwd=folder, PYTHONPATH="")
    if PRECISION not in shown.splitlines():
        raise CheckError(f"valor-gpu detect must print{PRECISION} but printed:\n{shown}")
    return "valor-gpu detect of COCO files, without torch"


def check_doctor(python: Path, folder: Path) -> str:
    """Asks the doctor, who must have found the library of C++ kernels."""
    shown = run(python.parent / "valor-gpu", "doctor", cwd=folder, PYTHONPATH="")
    if not re.search(r"^  libvalor_cpu\.so loaded", shown, re.MULTILINE):
        raise CheckError(f"valor-gpu doctor must find libvalor_cpu.so loaded but says:\n{shown}")
    return "valor-gpu doctor: the C++ kernels are there"


def check_example(python: Path, folder: Path) -> str:
    """Runs the README's first example, which must print what is shown below it."""
    code, wanted = first_example((ROOT / "README.md").read_text())
    shown = run(python, "-c", code, cwd=folder, PYTHONPATH="")
    if shown != wanted:
        raise CheckError(f"the first example of README.md must print\n{wanted}but printed\n{shown}")
    return "the first example of README.md"


def check(wheel: Path, folder: Path, download: bool = False, show: Callable[[str], object] = print) -> None:
    """Makes both environments of a wheel in ``folder`` and checks it in each.

    Raises:
        CheckError: the wheel cannot be installed, or does not do what the README says.
    """
    if not wheel.is_file():
        raise CheckError(f"{wheel} is no file: build a wheel with make wheel")
    steps = {("numpy",): (check_import, check_detect), HEAVY: (check_import, check_doctor, check_example)}
    for names, checks in steps.items():
        python = environment(folder / f"with_{names[-1]}", wheel, names, download)
        show(f"with {', '.join(names)}")
        for each in checks:
            show(f"  {each(python, folder)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Checks the wheel of the command line; returns 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel_smoke", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--download", action="store_true", help="let pip download the dependencies")
    arguments = parser.parse_args(argv)
    print(f"{arguments.wheel.name}, Python {sys.version.split()[0]}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            check(arguments.wheel.resolve(), Path(scratch), arguments.download, lambda line: print(line, flush=True))
        except CheckError as error:
            print(f"wheel-smoke: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
