"""Writes tests/api_surface.json: public names, their parameters and what their classes make public.

A change of that file is a change that users see; tests/test_imports.py fails until it is written.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is described, whatever is installed

import valor_gpu  # noqa: E402
from valor_gpu.result_data import ResultData  # noqa: E402

PARTS = (
    "classification",
    "coco",
    "detection",
    "functional",
    "inputs",
    "judge",
    "nominal",
    "offline",
    "ops",
    "regression",
    "retrieval",
    "segmentation",
    "stats",
    "text",
    "text.judged",
    "valor",
)
PACKAGES = ("valor_gpu", *(f"valor_gpu.{part}" for part in PARTS))


def parameters(function: Any) -> str:
    """Parameters with their stars; ``=`` after one that may be left out."""
    listed = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    stars = ["*" * ((p.kind is p.VAR_POSITIONAL) + 2 * (p.kind is p.VAR_KEYWORD)) for p in listed]
    names = [f"{star}{p.name}{'' if p.default is p.empty else '='}" for star, p in zip(stars, listed)]
    return f"({', '.join(names)})"


def describe(value: Any) -> Any:
    """A class: constructor and members of its own, of a result those of its data too; a function: parameters."""
    if inspect.isclass(value):
        owners = (
            [value] if value is ResultData else [*(base for base in value.__mro__[1:] if base is ResultData), value]
        )
        members = {
            name: parameters(member) if inspect.isfunction(member) else type(member).__name__
            for owner in owners
            for name, member in vars(owner).items()
            if not name.startswith("_")
            and (inspect.isfunction(member) or isinstance(member, (property, classmethod, staticmethod)))
        }
        return {"constructor": parameters(value.__init__), "members": members}
    return parameters(value) if callable(value) else type(value).__name__


def surface() -> dict[str, Any]:
    """Package to public name to description; a name of valor_gpu that a task has to the package of the task.

    Names of torchmetrics are left out: they differ by its version.
    """
    packages = {name: importlib.import_module(name) for name in PACKAGES}
    found = {
        name: {public: describe(getattr(package, public)) for public in sorted(package.__all__)}
        for name, package in packages.items() if package is not valor_gpu
    }  # fmt: skip
    own = {name: describe(getattr(valor_gpu, name)) for name in (*vars(valor_gpu)["_HOMES"], "__version__")}
    shared = {name: home for name, home in vars(valor_gpu)["_classes"]().items() if home in PACKAGES}
    return {"valor_gpu": dict(sorted((own | shared).items())), **found}


def text() -> str:
    """What the file holds."""
    return json.dumps(surface(), indent=1) + "\n"


if __name__ == "__main__":
    (ROOT / "tests/api_surface.json").write_text(text())
