"""Packages that results are compared with, loaded by the test that needs one: device cases run where one is missing."""

from __future__ import annotations

from typing import Any

import pytest


def pycocotools(module: str) -> Any:
    """Returns a module of pycocotools; a test that calls this is skipped where pycocotools is not installed.

    Args:
        module: ``mask``, ``coco`` or ``cocoeval``.
    """
    return pytest.importorskip(f"pycocotools.{module}", reason="pycocotools is not installed")
