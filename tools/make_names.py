"""Writes the stubs of the names that are made on first use, from which type checkers and editors know them.

Usage: python tools/make_names.py [--check]. With --check it writes nothing and fails when a stub is not up to date.
The names come from the table in valor_gpu/compat/torchmetrics/task_names.py.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is described, whatever is installed

from tools.front_stub import front_stub  # noqa: E402
from valor_gpu import classification, functional, nominal, options, regression, retrieval  # noqa: E402
from valor_gpu.compat.torchmetrics.functional.names import MODULES  # noqa: E402
from valor_gpu.compat.torchmetrics.task_classes import parameter  # noqa: E402
from valor_gpu.compat.torchmetrics.task_names import ANY, MADE, NAMED, TABLE, TASKS, Named  # noqa: E402

NOTE = "Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it."
TYPES = (("numpy.typing", "ArrayLike"), ("torch", "Tensor"), ("typing", "Any"))


def listed(signature: inspect.Signature) -> str:
    """Returns the parameters as a stub has them; defaults that are no plain literal as dots."""
    plain = (int, float, str, type(None))
    parts: list[str] = []
    for each in signature.parameters.values():
        default = repr(each.default) if isinstance(each.default, plain) else "..."
        annotation = "" if each.annotation is each.empty else f": {each.annotation}"
        parts += ["*"] if each.kind is each.KEYWORD_ONLY and "*" not in parts else []
        stars = "**" * (each.kind is each.VAR_KEYWORD)
        parts.append(f"{stars}{each.name}{annotation}{'' if each.default is each.empty else f' = {default}'}")
    return ", ".join(parts)


def first_line(documented: Any) -> str:
    """Returns the first line of a docstring as a docstring."""
    return f'"""{str(documented.__doc__).splitlines()[0]}"""'


def constructor(kind: Any) -> str:
    """Returns the constructor of a class as a stub has it."""
    return f"def __init__({listed(inspect.signature(kind.__init__))}) -> None: ..."


def with_task(named: Named) -> str:
    """Returns the constructor that takes ``task``, whose choices are the tasks that the metric has."""
    tasks = ", ".join(repr(task) for task in TASKS if f"{task.capitalize()}{named.name}" in MADE)
    given = [parameter(name, default, optional=name.startswith("num_")) for name, default in named.arguments.items()]
    required = [each.replace(annotation=f"Literal[{tasks}]") if each.name == "task" else each for each in given]
    return f"def __init__(self, {listed(inspect.Signature(required))}, **kwargs: Unpack[NamedOptions]) -> None: ..."


def of_classes() -> str:
    """Returns the stub of ``valor_gpu.classification``."""
    names = [name for name, kind in vars(options).items() if isinstance(kind, type) and name.endswith("Options")]
    imports = [*TYPES, ("torch", ""), ("typing", "Literal"), ("typing", "overload"), ("typing_extensions", "Unpack")]
    imports += [("valor_gpu.options", name) for name in names]
    parts = []
    for row in TABLE:
        plain = row.name not in NAMED or NAMED[row.name].task != ANY
        imports.append((f"{classification.__name__}.{row.module}", f"{row.name} as {'_' * (not plain)}{row.name}"))
        if not plain:
            kind = getattr(classification, row.name)
            forms = "".join(f"\n    @overload\n    {form}" for form in (constructor(kind), with_task(NAMED[row.name])))
            parts.append(f"class {row.name}(_{row.name}):\n    {first_line(kind)}{forms}")
    for name, named in MADE.items():
        kind = getattr(classification, name)
        parts.append(f"class {name}(_{named.row.name}):\n    {first_line(kind)}\n    {constructor(kind)}")
    return stub(classification, imports, parts)


def of_functions() -> str:
    """Returns the stub of ``valor_gpu.functional.classification``."""
    parts = []
    for name in MODULES["classification"]:
        signature = inspect.signature(function := getattr(functional, name))
        returned = f" -> {signature.return_annotation}"
        parts.append(f"def {name}({listed(signature)}){returned}:\n    {first_line(function)}")
    return stub(functional.classification, TYPES, parts)


def of_functional() -> str:
    """Returns the stub of ``valor_gpu.functional``."""
    imports = [("valor_gpu.functional", f"{module} as {module}") for module in MODULES]
    homes = {name: home for home, names in MODULES.items() for name in names}
    imports += [(f"valor_gpu.functional.{home}", f"{name} as {name}") for name, home in homes.items()]
    return stub(functional, imports, [])


def of_front(module: str) -> str:
    """Returns the stub of a module of ``valor_gpu.functional`` whose functions are in the one of the same name."""
    home = f"valor_gpu.compat.torchmetrics.functional.{module}"
    return stub(getattr(functional, module), [(home, f"{name} as {name}") for name in MODULES[module]], [])


def of_package(package: Any) -> str:
    """Returns the stub of a package of metrics whose table ``_MODULES`` says which module defines a name."""
    homes = {name: home for home, names in vars(package)["_MODULES"].items() for name in names}
    return stub(package, [(f"{package.__name__}.{homes[name]}", f"{name} as {name}") for name in sorted(homes)], [])


def stub(module: Any, imports: Iterable[tuple[str, str]], parts: Iterable[str]) -> str:
    """Returns a stub with the first line of the module's docstring and those imports (module, name) that it needs."""
    body = "\n".join(parts)
    needed = [(home, name) for home, name in imports if " as " in name or re.search(rf"\b{name or home}\b", body)]
    lines = sorted(f"from {home} import {name}" if name else f"import {home}" for home, name in needed)
    rules = "# ruff: noqa: E501, I001\n" * (len(lines) > 1)  # ruff names those that a short stub does not need
    head = f'{rules}# fmt: off\n"""{str(module.__doc__).splitlines()[0]}\n\n{NOTE}\n"""\n'
    return head + "\n".join(["", *lines, "", "__all__: list[str]", *([""] * bool(body)), ""]) + body + "\n" * bool(body)


def stubs() -> dict[str, str]:
    """Returns path below the checkout to content."""
    return {
        "valor_gpu/__init__.pyi": front_stub(),
        "valor_gpu/classification/__init__.pyi": of_classes(),
        "valor_gpu/nominal/__init__.pyi": of_package(nominal),
        "valor_gpu/regression/__init__.pyi": of_package(regression),
        "valor_gpu/retrieval/__init__.pyi": of_package(retrieval),
        "valor_gpu/functional/__init__.pyi": of_functional(),
        "valor_gpu/functional/classification.pyi": of_functions(),
        **{f"valor_gpu/functional/{module}.pyi": of_front(module) for module in MODULES if module != "classification"},
    }


def main() -> int:
    """Write the stubs, or check them."""
    made = stubs()
    if "--check" in sys.argv[1:]:
        old = [path for path, text in made.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
        print("\n".join(f"{path} is not up to date: run tools/make_names.py" for path in old) or "names are up to date")
        return 1 if old else 0
    for path, text in made.items():
        (ROOT / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
