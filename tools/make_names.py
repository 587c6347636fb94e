"""Writes what has torchmetrics' names from tools/torchmetrics_names.txt: classes of a task, functions, signatures.

Usage: python tools/make_names.py [--check]. With --check it writes nothing and fails when a module is not up to date.
A metric that is added needs a line in the table for each of its names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is described, whatever is installed
TABLE = ROOT / "tools/torchmetrics_names.txt"
TASKS = ("Binary", "Multiclass", "Multilabel")
NOTE = "Made by tools/make_names.py: change its table, then run it."
TYPES = {
    "activation": "str", "average": "str | None", "beta": "float", "ignore_index": "int | None",
    "max_fpr": "float | None", "min_precision": "float", "min_recall": "float", "min_sensitivity": "float",
    "min_specificity": "float", "multidim_average": "str", "n_bins": "int", "norm": "str",
    "normalization": "str | None", "normalize": "str | None", "num_classes": "int", "num_labels": "int",
    "separate_ones": "bool", "task": "str", "threshold": "float", "thresholds": "int | ArrayLike | Tensor | None",
    "top_k": "int", "validate_args": "bool", "weights": "str | None", "zero_division": "float",
}  # fmt: skip
PAIR = {
    "PrecisionRecallCurve": "Any", "ROC": "Any", "PrecisionAtFixedRecall": "Any", "RecallAtFixedPrecision": "Any",
    "SensitivityAtSpecificity": "Any", "SpecificityAtSensitivity": "Any",
}  # fmt: skip
"""What functions return that give several tensors; others give one."""
WRITTEN = {
    "bert_score": "tokens",
    "perplexity": "tokens",
    **dict.fromkeys(("dice_score", "generalized_dice_score", "hausdorff_distance", "mean_iou",
                     "modified_panoptic_quality", "panoptic_quality"), "segmentation"),
    **dict.fromkeys(("intersection_over_union", "generalized_intersection_over_union",
                     "distance_intersection_over_union", "complete_intersection_over_union",
                     "mean_average_precision"), "boxes"),
    **dict.fromkeys(("bleu_score", "char_error_rate", "chrf_score", "edit_distance", "match_error_rate", "rouge_score",
                     "sacre_bleu_score", "squad", "translation_edit_rate", "word_error_rate", "word_information_lost",
                     "word_information_preserved"), "texts"),
}  # fmt: skip
"""Functions written by hand, and their modules."""
OWN: dict[str, dict[str, Any]] = {"CalibrationError": {"separate_ones": False}}
"""Class of any task to what its functions take by name beyond torchmetrics' arguments; classes have it in Options."""
REQUIRED = object()


class Row(NamedTuple):
    """One line of the table: arguments by name to their default."""

    name: str
    arguments: dict[str, Any]
    function: str
    function_arguments: dict[str, Any]

    @property
    def task(self) -> str:
        """``Binary``, ``Multiclass``, ``Multilabel``, or nothing for a class of any task."""
        return next((task for task in TASKS if self.name.startswith(task)), "")

    @property
    def base(self) -> str:
        """The class of any task."""
        return self.name.removeprefix(self.task)


def arguments(text: str) -> dict[str, Any]:
    """``"a b=1"`` as a dict."""
    pairs = (part.partition("=") for part in text.split())
    return {name: ast.literal_eval(value) if equals else REQUIRED for name, equals, value in pairs}


def rows() -> list[Row]:
    """The table."""
    lines = [line.split(" | ") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return [Row(name, arguments(own), function, arguments(theirs)) for name, own, function, theirs in lines]


def parameter(name: str, default: Any, optional: bool = False) -> str:
    """``name: type = default``; ``optional``: one without default gets None."""
    kind = TYPES[name]
    if default is REQUIRED:
        return f"{name}: {kind} | None = None" if optional else f"{name}: {kind}"
    return f"{name}: {kind}{' | None' if default is None and 'None' not in kind else ''} = {default!r}"


def own_names() -> set[str]:
    """Classes with the name of one task and an implementation of their own, such as rankings of labels."""
    return {"MultilabelCoverageError", "MultilabelRankingAveragePrecision", "MultilabelRankingLoss"}


def classes(task: str, table: list[Row]) -> str:
    """The module of the classes of a task."""
    chosen = [row for row in table if row.task == task and row.name not in own_names()]
    bases = ", ".join(row.base for row in chosen)
    parts = [
        f'"""Metrics of the {task.lower()} task by the names and arguments of torchmetrics.\n\n{NOTE}\n"""',
        "from __future__ import annotations",
        "from typing import TYPE_CHECKING",
        f"from valor_gpu.classification import {bases}\nfrom valor_gpu.classification.tasks import native",
        "if TYPE_CHECKING:\n    from numpy.typing import ArrayLike\n    from torch import Tensor\n"
        "    from typing_extensions import Unpack\n\n    from valor_gpu.options import NamedOptions",
    ]
    for row in chosen:
        listed = ", ".join(parameter(*pair) for pair in row.arguments.items())
        passed = ", ".join(f"{name}={name}" for name in row.arguments)
        parts.append(
            f"class {row.name}({row.base}):\n"
            f'    """``{row.base}`` of the {task.lower()} task, '
            'with the arguments of torchmetrics\' class."""\n\n'
            f"    def __init__(self, {listed}, **kwargs: Unpack[NamedOptions]) -> None:\n"
            f"        super().__init__(**native(kwargs, {passed}))"
        )
    return "\n\n".join(parts) + "\n"


def own_signature(kind: type) -> str:
    """The parameters of a class by number of classes or labels; defaults that are no plain literal as dots."""
    plain = (int, float, str, type(None))
    parts = []
    for each in inspect.signature(kind.__init__).parameters.values():  # type: ignore[misc]
        default = repr(each.default) if isinstance(each.default, plain) else "..."
        given = "" if each.default is each.empty else f" = {default}"
        parts += ["*"] if each.kind is each.KEYWORD_ONLY and "*" not in parts else []
        parts.append(f"{'**' * (each.kind is each.VAR_KEYWORD)}{each.name}: {each.annotation}{given}")
    return ", ".join(["self", *parts[1:]])


def signatures(table: list[Row]) -> str:
    """What type checkers read of the classes of any task: their own arguments, and those with a task."""
    package = importlib.import_module("valor_gpu.classification")
    options = [name for name, kind in vars(importlib.import_module("valor_gpu.options")).items()
               if isinstance(kind, type) and name.endswith("Options")]  # fmt: skip
    parts = [
        f'# ruff: noqa: E501\n"""Both forms of the constructors of classes of any task.\n\n{NOTE}\n"""',
        "from typing import Literal, overload\n\nimport torch\nfrom numpy.typing import ArrayLike\n"
        "from torch import Tensor\nfrom typing_extensions import Unpack\n\n"
        f"from valor_gpu.options import {', '.join(options)}",
    ]
    for row in table:
        if "task" in row.arguments:
            kind = getattr(package, row.name)
            tasks = ", ".join(repr(task.lower()) for task in TASKS if any(r.name == task + row.name for r in table))
            listed = ", ".join(
                parameter(name, default, optional=name.startswith("num_"))
                for name, default in row.arguments.items() if name != "task"
            )  # fmt: skip
            parts[1] += f"\nfrom {kind.__module__} import {row.name} as _{row.name}"
            parts.append(
                f'class {row.name}(_{row.name}):\n    """{str(kind.__doc__).splitlines()[0]}"""\n\n'
                f"    @overload\n    def __init__({own_signature(kind)}) -> None: ...\n"
                f"    @overload\n    def __init__(self, task: Literal[{tasks}], {listed},"
                " **kwargs: Unpack[NamedOptions]) -> None: ..."
            )
    return "\n\n".join(parts) + "\n"


def functions(task: str, table: list[Row]) -> str:
    """The module of the functions of a task; of any task where it is empty."""
    chosen = [row for row in table if row.task == task]
    kinds = ", ".join(row.name for row in chosen)
    parts = [
        f'"""Metrics of the {task.lower()} task of one batch.\n\n{NOTE}\n"""'
        if task
        else f'"""Metrics of one batch, by task.\n\n{NOTE}\n"""',
        "from __future__ import annotations",
        "from typing import TYPE_CHECKING, Any",
        f"from valor_gpu.classification import {kinds}\nfrom valor_gpu.functional.once import once",
        "if TYPE_CHECKING:\n    from numpy.typing import ArrayLike\n    from torch import Tensor",
    ]
    for row in chosen:
        listed = ", ".join(parameter(*pair, optional=True) for pair in row.function_arguments.items())
        own = OWN.get(row.base, {})
        passed = ", ".join(f"{name}={name}" for name in (*row.function_arguments, *own))
        named = "".join(f", {parameter(*pair)}" for pair in own.items())
        values = "ArrayLike | Tensor | None = None"
        parts.append(
            f"def {row.function}(preds: {values}, target: {values}, {listed}, *, y_true: {values}, y_pred: {values}"
            f"{named}) -> {PAIR.get(row.base, 'Tensor')}:\n"
            f'    """Returns what ``{row.name}`` computes of one batch; see '
            ':mod:`valor_gpu.functional`."""\n'
            f"    return once({row.name}, (preds, target, y_true, y_pred), {passed})"
        )
    return "\n\n".join(parts) + "\n"


def names(table: list[Row]) -> str:
    """The module of the names alone, which imports no torch."""
    made = [row for row in table if row.task and row.name not in own_names()]
    imports = "\n".join(
        f"    from valor_gpu.classification.{task.lower()} import "
        + ", ".join(row.name for row in made if row.task == task)
        for task in TASKS
    )
    homes = {row.name: f"valor_gpu.classification.{row.task.lower()}" for row in made}
    known = {
        row.name: {name: None if value is REQUIRED else value for name, value in row.arguments.items()} for row in table
    }
    return (
        f'"""Names of torchmetrics\' classes of one task, and their arguments.\n\n{NOTE}\n"""\n\n'
        "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING, Any\n\n"
        f"if TYPE_CHECKING:\n{imports}\n\n__all__ = {sorted(homes)!r}\n\nHOMES = {homes!r}\n"
        f'"""Class to module."""\n\nARGUMENTS: dict[str, dict[str, Any]] = {known!r}\n'
        '"""Class to its arguments in order, with defaults; None also for those that must be given."""\n'
    )


def package(table: list[Row]) -> str:
    """The ``__init__`` of the functions."""
    modules = {row.function: row.task.lower() or "tasks" for row in table} | WRITTEN
    imports = "\n".join(
        f"    from valor_gpu.functional.{module} import " + ", ".join(f for f, m in modules.items() if m == module)
        for module in sorted(set(modules.values()))
    )
    return (
        f'"""Metrics of one batch, by the names and arguments of torchmetrics.\n\n{NOTE}\n\n'
        "Positions are those of torchmetrics: ``(preds, target)``, then the arguments of its function. Who has\n"
        "``(y_true, y_pred)`` gives both by name. Tensors, numpy arrays and lists of Python numbers are taken; the\n"
        'value is that of ``compute`` of the class, which is computed by it.\n"""\n\n'
        "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\n"
        "from valor_gpu._lazy import lazy_names\n\n"
        f"if TYPE_CHECKING:\n{imports}\n\n__all__ = {sorted(modules)!r}\n\n"
        f"_MODULES = {modules!r}\n\n"
        "__getattr__, __dir__ = lazy_names(__name__, "
        '{name: f"{__name__}.{module}" for name, module in _MODULES.items()})\n'
    )


def tidy(source: str, path: str) -> str:
    """``source`` sorted, without unused imports, and formatted as the rest of the package."""
    for command in (["check", "--fix", "--quiet", "--select", "I,F401,RUF022"], ["format"]):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"],
            input=source, capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        source = run.stdout
    return re.sub(r"\n{4,}", "\n\n\n", source)


def modules() -> dict[str, str]:
    """Path below the checkout to content."""
    table = rows()
    made = {f"valor_gpu/classification/{task.lower()}.py": classes(task, table) for task in TASKS}
    made["valor_gpu/classification/task_names.py"] = names(table)
    made["valor_gpu/classification/signatures.pyi"] = signatures(table)
    made |= {f"valor_gpu/functional/{task.lower() or 'tasks'}.py": functions(task, table) for task in ("", *TASKS)}
    made["valor_gpu/functional/__init__.py"] = package(table)
    return {path: tidy(source, path) for path, source in made.items()}


def main() -> int:
    """Write the modules, or check them."""
    made = modules()
    if "--check" in sys.argv[1:]:
        old = [path for path, text in made.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
        print("\n".join(f"{path} is not up to date: run tools/make_names.py" for path in old) or "names are up to date")
        return 1 if old else 0
    for path, text in made.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
