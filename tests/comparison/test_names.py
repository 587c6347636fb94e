"""Names of the comparison: they are functions and classes whatever was imported before."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

ORDERS = (
    "from valor_gpu.comparison import compare",
    "import valor_gpu.stats\nfrom valor_gpu.comparison import compare",
    "from valor_gpu.stats import compare\nfrom valor_gpu.comparison import compare as other\nassert other is compare",
    "from valor_gpu.comparison import compare as other\nfrom valor_gpu.stats import compare\nassert other is compare",
    "import valor_gpu.comparison.comparing\nfrom valor_gpu.comparison import compare",
    "import valor_gpu.comparison.comparing\nfrom valor_gpu.stats import compare",
    "import valor_gpu.comparison.pairs, valor_gpu.web.vision.baseline_tests\nfrom valor_gpu.comparison import compare",
)


@pytest.mark.parametrize("imports", ORDERS)
def test_compare_is_the_function(imports: str) -> None:
    program = f"{imports}\nimport inspect\nassert inspect.isfunction(compare), compare\nprint(compare.__name__)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("compare\n", "")


def test_no_module_has_the_name_of_a_public_name() -> None:
    """A module of a package becomes its attribute when it is imported, in place of a function of the same name."""
    for name in ("valor_gpu.comparison", "valor_gpu.stats", "valor_gpu.gates"):
        package = importlib.import_module(name)
        assert not set(package.__all__) & {each.name for each in pkgutil.iter_modules(package.__path__)}
