"""Studio: evaluation from a browser, on your own machine. Needs the extra ``web``; no torch.

One server for one store: it shows the runs that ``evaluate()`` wrote, and starts new ones in processes of their own.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names
from valor_gpu.errors import MissingExtraError

if TYPE_CHECKING:
    from valor_gpu.web.app import make_app
    from valor_gpu.web.server import serve

__all__ = ["make_app", "serve"]

for _package in ("starlette", "jinja2", "uvicorn", "python_multipart"):
    if find_spec(_package) is None:
        raise MissingExtraError(_package, "web", "Studio")

__getattr__, __dir__ = lazy_names(__name__, {"make_app": "valor_gpu.web.app", "serve": "valor_gpu.web.server"})
