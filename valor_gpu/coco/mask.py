"""``pycocotools.mask`` by name; every function raises until run-length masks are supported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _unsupported(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"valor_gpu.coco.mask.{name}: masks are not supported yet; pycocotools.mask.{name} works on the same data"
        )

    function.__name__ = name
    return function


encode = _unsupported("encode")
decode = _unsupported("decode")
area = _unsupported("area")
toBbox = _unsupported("toBbox")
iou = _unsupported("iou")
merge = _unsupported("merge")
frPyObjects = _unsupported("frPyObjects")
