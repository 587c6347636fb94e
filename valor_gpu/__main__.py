"""``python -m valor_gpu`` is the command ``valor-gpu``."""

import sys

from valor_gpu.cli import main

if __name__ == "__main__":
    sys.exit(main())
