"""Makes ``valor_gpu/__init__.pyi``: the names of valor_gpu for type checkers and editors, which do not run its code.

tools/make_names.py writes and checks it with the other stubs.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is described, whatever is installed

import valor_gpu  # noqa: E402
from valor_gpu.compat.torchmetrics import sources  # noqa: E402

STUB = ROOT / "valor_gpu" / "__init__.pyi"
WIDTH = 120


def front_stub() -> str:
    """Returns the stub: every public name of valor_gpu, imported from the module that has it.

    The names of torchmetrics' wrappers are those of its ``__all__``, so that a newer torchmetrics does not change it.
    """
    modules_of_torchmetrics = {part: f"valor_gpu.{part}" for part in sources.PASSED}
    homes = {**vars(valor_gpu)["_classes"](), **vars(valor_gpu)["_HOMES"], **modules_of_torchmetrics}
    modules: dict[str, list[str]] = {}
    for name, home in homes.items():
        if home != "torchmetrics.wrappers":
            modules.setdefault("valor_gpu" if home == f"valor_gpu.{name}" else home, []).append(name)
    lines = ["from torchmetrics.wrappers import *", "from valor_gpu._version import __version__ as __version__"]
    lines += [_imported(module, sorted(modules[module])) for module in modules]
    lines.sort(key=lambda line: line.split()[1])
    note = "Made by tools/make_names.py from the names of the packages."
    head = f'# ruff: noqa: I001, F403\n"""{str(valor_gpu.__doc__).splitlines()[0]}\n\n{note}\n"""\n'
    return "\n".join((head, *lines, ""))


def _imported(module: str, names: list[str]) -> str:
    """An import that makes names public, on as many lines as it needs."""
    parts = [f"{name} as {name}" for name in names]
    short = f"from {module} import {', '.join(parts)}"
    return short if len(short) <= WIDTH else f"from {module} import (\n" + "".join(f"    {p},\n" for p in parts) + ")"
