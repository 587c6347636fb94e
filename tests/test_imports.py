"""What importing costs and loads, and what is public."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import valor_gpu
from tools import make_api_surface
from valor_gpu import native

HEAVY = ("torch", "numpy", "torchmetrics", "triton", "matplotlib", "pycocotools")
DATA = Path(__file__).parent.parent / "examples" / "data"


def loaded_by(program: str) -> set[str]:
    """Which of the heavy packages a program loads in a process of its own."""
    program += f"\nimport sys\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        ("import valor_gpu; dir(valor_gpu), valor_gpu.__version__, valor_gpu.InputError", set()),
        ("import valor_gpu; valor_gpu.coco, valor_gpu.detection, valor_gpu.ops, valor_gpu.Result", set()),
        ("import valor_gpu.cli, valor_gpu.report.doctor, valor_gpu.report.detection", set()),
        ("from valor_gpu.cli import main, parser\nparser().format_help()", set()),
        ("from valor_gpu.coco import COCO; COCO()", {"numpy"}),
        ("from valor_gpu import Ragged", {"torch", "numpy"}),
        ("from valor_gpu.ops import backends; backends()", {"torch", "numpy"}),
        ("from valor_gpu.cli import main; main(['doctor'])", {"torch", "numpy"}),
    ],
)
def test_nothing_is_loaded_before_it_is_used(program: str, allowed: set[str]) -> None:
    assert loaded_by(program) <= allowed


FILES = [
    str(DATA / name) for name in ("instances_val2014_100.json", "instances_val2014_fakebbox100_results.json")
]  # fmt: skip
needs_library = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))


@needs_library
@pytest.mark.parametrize(
    ("options", "loaded"),
    [
        (["--quiet"], {"numpy"}),
        (["--per-class", "--convention", "corrected"], {"numpy"}),
        (["--json", "-"], {"numpy"}),
        (["--json", "FOLDER/result.json", "--per-class"], {"numpy"}),
        (["--plot", "FOLDER/curves.png"], {"numpy", "matplotlib"}),
    ],
)
def test_detecting_on_the_cpu_loads_no_torch(options: list[str], loaded: set[str], tmp_path: Path) -> None:
    arguments = ["detect", "--gt", FILES[0], "--dt", FILES[1], *(o.replace("FOLDER", str(tmp_path)) for o in options)]
    assert loaded_by(f"from valor_gpu.cli import main\nassert main({arguments!r}) == 0\n") == loaded


CLASSIFY = ["classify", "--data", str(DATA / "digits_predictions.csv"), "--target", "digit", "--scores-prefix", "p_"]


@needs_library
@pytest.mark.parametrize(
    ("options", "loaded"),
    [
        (["--per-class", "--json", "FOLDER/result.json", "--average", "weighted", "--thresholds", "20"], {"numpy"}),
        (["--store", "FOLDER/runs.sqlite", "--quiet", "--fail-under", "accuracy=0.5"], {"numpy"}),
        (["--plot", "FOLDER/roc.png"], {"numpy", "matplotlib"}),
    ],
)  # fmt: skip
def test_classifying_on_the_cpu_loads_no_torch(options: list[str], loaded: set[str], tmp_path: Path) -> None:
    arguments = [*CLASSIFY, *(o.replace("FOLDER", str(tmp_path)) for o in options)]
    assert loaded_by(f"from valor_gpu.cli import main\nassert main({arguments!r}) == 0\n") == loaded


@needs_library
@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (CLASSIFY, 150),
        (["text", "--prediction", "a", "--reference", "b", "--metrics", "f1_score,rouge"], 150),
        (["eval", "run", "--data", "FOLDER/rows.jsonl", "--metrics", "f1_score", "--store", "FOLDER/runs.sqlite"], 400),
    ],
)  # fmt: skip
def test_commands_load_few_modules(arguments: list[str], most: int, tmp_path: Path) -> None:
    """Start-up is imports: a command of 150 modules beside NumPy's takes 0.15 seconds, torch alone takes 2."""
    (tmp_path / "rows.jsonl").write_text('{"answer": "a cat", "ground_truth": "the cat"}')
    arguments = [each.replace("FOLDER", str(tmp_path)) for each in arguments]
    program = f"from valor_gpu.cli import main\nassert main({arguments!r}) == 0"
    assert 0 < len([name for name in modules_of(program) if name.partition(".")[0] != "numpy"]) < most


def modules_of(program: str) -> list[str]:
    """Names of the modules that a program loads in a process of its own."""
    program = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1].split()


@needs_library
def test_a_whole_evaluation_on_the_cpu_loads_no_torch() -> None:
    """Every attribute, both conventions, evaluation cell by cell and of results as an array."""
    program = f"""
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    from valor_gpu.coco import COCO, COCOeval

    class ByCell(COCOeval):
        def computeIoU(self, imgId, catId):
            return super().computeIoU(imgId, catId)

    truth = COCO({FILES[0]!r})
    found = truth.loadRes({FILES[1]!r})
    for kind, options in ((COCOeval, {{}}), (COCOeval, {{"convention": "corrected"}}), (ByCell, {{}})):
        e = kind(truth, found, "bbox", device="cpu", **options)
        if kind is ByCell:
            e.params.imgIds = e.params.imgIds[:3]
        e.evaluate()
        e.accumulate()
        e.summarize()
        e.eval["scores"], e.ious, e.evalImgs, e._gts, e._dts, str(e)
        e.accumulate()  # what evalImgs, now seen, holds
        if kind is not ByCell:
            str(e.result()), e.result().to_dict()
"""
    assert loaded_by(program) == {"numpy"}


def test_help_and_version_load_nothing() -> None:
    for option in ("--help", "--version"):
        program = "import contextlib\nfrom valor_gpu.cli import main\nwith contextlib.suppress(SystemExit):"
        assert loaded_by(f"{program} main([{option!r}])") == set()


def test_a_run_does_without_what_it_does_not_need() -> None:
    """Modules that cost milliseconds and serve gzip, JSON output, downloads, help and masks alone."""
    unwanted = ("urllib.request", "http", "ssl", "email", "gzip", "hashlib", "logging", "shutil", "tempfile", "asyncio",
                "importlib.metadata", "unicodedata", "difflib", "pathlib", "urllib.parse", "threading", "numpy.ma",
                "valor_gpu.coco.many_masks", "valor_gpu.ops.runs.op", "valor_gpu.reduce.coco_summary")  # fmt: skip
    arguments = ["detect", "--gt", FILES[0], "--dt", FILES[1]]
    program = f"import sys, numpy\nbefore = set(sys.modules)\nfrom valor_gpu.cli import main\nmain({arguments!r})\n"
    program += f"print('found', *[name for name in {unwanted} if name in set(sys.modules) - before])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "found"


def test_import_loads_few_modules() -> None:
    assert "valor_gpu" in (found := modules_of("import valor_gpu")) and len(found) < 20


def test_public_names_are_those_in_api_surface_json() -> None:
    stored = json.loads((Path(__file__).parent / "api_surface.json").read_text())
    assert make_api_surface.surface() == stored, "look at the difference, then run tools/make_api_surface.py"


@pytest.mark.parametrize("name", make_api_surface.PACKAGES)
def test_packages_list_their_names_and_refuse_others(name: str) -> None:
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))
    assert not [public for public in dir(package) if public.startswith("_") and not public.startswith("__")]
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'no_such_name'"):
        _ = package.no_such_name


@pytest.mark.parametrize("name", ["valor_gpu.detection", "valor_gpu.stats"])
def test_stubs_give_type_checkers_the_names_of_a_package(name: str) -> None:
    package = importlib.import_module(name)
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text())
    homes = {part.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for part in node.names}
    assert sorted(homes) == sorted(package.__all__)
    for public, home in homes.items():
        assert vars(importlib.import_module(str(home)))[public] is getattr(package, public)


def test_errors_are_those_of_python_too() -> None:
    assert issubclass(valor_gpu.InputError, ValueError)
    assert issubclass(valor_gpu.MissingExtraError, ImportError)
    assert issubclass(valor_gpu.NativeError, RuntimeError)
    assert all(issubclass(e, valor_gpu.ValorError) for e in (valor_gpu.InputError, valor_gpu.SyncError))


@pytest.mark.parametrize(
    ("folder", "unwanted", "except_for"),
    [
        ("benchmarks", "tests", ""),
        ("testing", "tests|benchmarks", ""),
        ("tests", "benchmarks", "tests/benchmarks"),  # the tests of the benchmarks themselves
        ("valor_gpu", "tests|benchmarks|testing|tools|examples", ""),
    ],
)
def test_tests_and_benchmarks_share_code_only_through_testing(folder: str, unwanted: str, except_for: str) -> None:
    root = Path(__file__).parent.parent
    statement = re.compile(rf"^\s*(?:from|import) (?:{unwanted})\b|import_module\(\"(?:{unwanted})\b", re.MULTILINE)
    importing = [
        str(path.relative_to(root)) for path in (root / folder).rglob("*.py") if statement.search(path.read_text())
    ]
    assert [name for name in importing if not (except_for and name.startswith(except_for))] == []
