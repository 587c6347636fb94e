"""The process of ``valor-gpu`` and of ``python -m valor_gpu``, set up for a short run before numpy is imported."""

import gc
import os
import sys


def run() -> int:
    """Runs the command of this process; returns its exit status."""
    gc.disable()  # a run makes no cycles worth looking for, and imports make many objects
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's BLAS, which is not used, starts one for each CPU
    from valor_gpu.cli import main

    try:
        return main()
    finally:
        gc.freeze()  # the interpreter looks at all objects several times while it ends, but not at frozen ones


if __name__ == "__main__":
    sys.exit(run())
