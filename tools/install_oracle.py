"""Puts torchvision, which torchmetrics' MeanAveragePrecision needs, where only tests and benchmarks find it.

The torchvision of PyPI is a CUDA build. Beside a torch without CUDA it cannot be imported without the help of
testing/prepare.py, and inside the environment it would break ``import torchmetrics`` for all. Hence a folder of its
own, and no dependencies, so that it cannot replace torch. Beside a torch with CUDA it is installed as usual.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import torch


def matching_release(torch_version: str) -> str:
    """The torchvision release made for a torch release: 0.28.0 for 2.13.0, and so on in step."""
    major, minor = (int(part) for part in torch_version.split(".")[:2])
    if major != 2:
        raise SystemExit(f"no torchvision is known for torch {torch_version}")
    return f"0.{minor + 15}.0"


def main(folder: Path) -> None:
    """Install unless it is there."""
    has_cuda = torch.version.cuda is not None
    if importlib.util.find_spec("torchvision") is not None if has_cuda else folder.exists():
        return
    package = f"torchvision=={matching_release(torch.__version__)}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-deps"]
    done = subprocess.run([*pip, *([] if has_cuda else ["--target", str(folder)]), package], check=False)
    if done.returncode != 0:
        print(f"{package} could not be installed: tests against torchmetrics' MeanAveragePrecision will fail")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
