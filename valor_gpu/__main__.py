"""The process of ``valor-gpu`` and of ``python -m valor_gpu``, set up for a short run before numpy is imported."""

import gc
import os
import sys
from types import ModuleType

_DOCSTRINGS = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
"""Modules of numpy that only give docstrings to its functions: 5 ms of a process in which nobody reads them."""


def run() -> int:
    """Runs the command of this process; returns its exit status."""
    gc.disable()  # a run makes no cycles worth looking for, and imports make many objects
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's BLAS, which is not used, starts one for each CPU
    for name in _DOCSTRINGS:
        sys.modules.setdefault(name, ModuleType(name))  # as under python -OO, which numpy and its users allow for
    from valor_gpu.cli import main

    try:
        status = main()
    finally:
        gc.freeze()  # the interpreter looks at all objects several times while it ends, but not at frozen ones
    _leave(status)
    return status


def _leave(status: int) -> None:
    """Ends a process that has no threads: the interpreter would take 4 ms to free, one by one, what goes anyway."""
    if "threading" in sys.modules:
        return
    import atexit

    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # closed, or full: the interpreter says so in its own way
        return
    os._exit(status)


if __name__ == "__main__":
    sys.exit(run())
