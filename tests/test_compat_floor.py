"""``valor_gpu.compat``: other people's names, each package of which says whose they are, and no mathematics."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOOR = ROOT / "valor_gpu" / "compat"
FILES = sorted(FLOOR.rglob("*.py"))
PACKAGES = sorted(path.parent for path in FLOOR.glob("*/__init__.py"))
KERNELS = re.compile(r"valor_gpu\.(ops|native|native_objects|cuda_plans)(\.|$)")
ARITHMETIC = frozenset({
    "argmax", "argmin", "argpartition", "argsort", "average", "bincount", "cdist", "clamp", "clip", "corrcoef",
    "cov", "cumprod", "cumsum", "diagonal", "diff", "divide", "dot", "einsum", "exp", "floor_divide", "fsum",
    "histogram", "inner", "interp", "lexsort", "linspace", "log", "log2", "logaddexp", "logsumexp", "matmul", "max",
    "maximum", "mean", "median", "min", "minimum", "mode", "multiply", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanquantile", "nanstd", "nansum", "norm", "outer", "percentile", "power", "prod", "quantile", "reduce",
    "reduceat", "round", "searchsorted", "softmax", "sort", "sqrt", "square", "std", "sum", "tensordot", "topk",
    "trapezoid", "trapz", "true_divide", "unique", "var",
})  # fmt: skip
"""Functions and methods of arrays that compute numbers or an order."""
OPERATORS = {ast.Div: "/", ast.FloorDiv: "//", ast.MatMult: "@", ast.Pow: "**"}


def imported(tree: ast.Module) -> Iterator[str]:
    """Yields the modules that a file imports anywhere, also those whose name it passes to ``import_module``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def computed(tree: ast.Module) -> Iterator[str]:
    """Yields the arithmetic of a file; ``/`` with a text on either side joins paths."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ARITHMETIC:
            yield f"line {node.lineno}: {node.func.attr}()"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            if not any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", 0), str) for side in sides):
                yield f"line {node.lineno}: {OPERATORS[type(node.op)]}"


def faults_of(text: str) -> list[str]:
    """Returns the kernels that a file imports, and its arithmetic."""
    tree = ast.parse(text)
    return [name for name in imported(tree) if KERNELS.match(name)] + list(computed(tree))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FLOOR)))
def test_names_hold_no_mathematics(path: Path) -> None:
    assert faults_of(path.read_text()) == [], "move it to the room of its subject, which compat imports"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from valor_gpu.ops.labels import count_labels", "valor_gpu.ops.labels.count_labels"),
        ("def f():\n    from valor_gpu import native", "valor_gpu.native"),
        ("if TYPE_CHECKING:\n    import valor_gpu.ops.assign.op", "valor_gpu.ops.assign.op"),
        ("importlib.import_module('valor_gpu.ops')", "valor_gpu.ops"),
        ("value = hits / total", "line 1: /"),
        ("value //= total", "line 1: //"),
        ("value = (a @ b)", "line 1: @"),
        ("value = x ** 2", "line 1: **"),
        ("value = scores.mean()", "line 1: mean()"),
        ("order = np.argsort(-scores)", "line 1: argsort()"),
    ],
)
def test_mathematics_is_found(text: str, fault: str) -> None:
    assert faults_of(text) == [fault]


def test_translating_is_no_mathematics() -> None:
    text = 'path = folder / "a.json"; path = f"{a}" / path; names = sorted(given); shape = boxes.reshape(-1, 4)'
    assert faults_of(text) == []
    assert faults_of("from valor_gpu.detection.pair_similarity import similarity; from valor_gpu import optional") == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_says_whose_names_it_has(package: Path) -> None:
    documented = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert re.match(rf"Names of .*\b{package.name}\b", documented.partition("\n")[0], re.IGNORECASE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FLOOR)))
def test_a_module_has_its_place_among_the_layers(path: Path) -> None:
    layers = (ROOT / "pyproject.toml").read_text().partition("layers = [")[2].partition("\n]")[0]
    listed = set(re.findall(r"compat\.[\w.]+", layers))
    parts = path.relative_to(FLOOR.parent).with_suffix("").parts
    names = {".".join(parts[:size]) for size in range(2, len(parts) + 1)}
    assert names & listed or path.name == "__init__.py", "add it to the layers of pyproject.toml"
