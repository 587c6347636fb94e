"""What is installed here, and which kernel serves each op on each device: the report of ``valor-gpu doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import warnings
from collections.abc import Mapping
from typing import Any

from valor_gpu import native
from valor_gpu._version import __version__
from valor_gpu.errors import LINES, MissingPackageError
from valor_gpu.ops._switches import VARIABLE
from valor_gpu.report.text import plural, table

CORE = ("torch", "numpy", "torchmetrics")

EXTRAS = {
    "triton": ("triton",),
    "plot": ("matplotlib",),
    "arrow": ("pyarrow",),
    "text": ("nltk",),
    "llm": ("openai",),
    "azure": ("azure-identity",),
    "local": ("transformers",),
    "pandas": ("pandas",),
    "geo": ("shapely",),
    "images": ("pillow",),
    "mlflow": ("mlflow-skinny",),
    "eval": ("regex", "jsonschema-rs", "jinja2", "pyyaml"),
    "web": ("starlette", "jinja2", "uvicorn", "python-multipart"),
    "ray": ("pyarrow", "pandas", "ray"),
}
"""Extra to the packages that it installs."""

LIBRARIES = ("valor_cpu", "valor_cuda")


def survey() -> dict[str, Any]:
    """All facts, as ``valor-gpu doctor --json`` prints them.

    Returns:
        ``valor_gpu``, ``python``, ``platform``; ``packages``: name to version, None when missing; ``devices``: a dict
        each; ``cuda``: why there is or is no CUDA device; ``libraries``: name to ``available``, ``reason`` and
        ``build``, the record of setup.py (None: nothing was built); ``ops``: name and, for ``cpu`` and ``cuda``
        tensors, ``kernel`` and ``reason``, for ``cuda`` also ``disabled``: whether ``VALOR_GPU_DISABLE`` takes a CUDA
        kernel away that would serve; ``advice``: what would serve better.

    Raises:
        InputError: ``VALOR_GPU_DISABLE`` names an op that does not exist.

    Example:
        >>> sorted(survey())[:4]
        ['advice', 'cuda', 'devices', 'libraries']
    """
    names = (*CORE, *(package for packages in EXTRAS.values() for package in packages))
    facts: dict[str, Any] = {
        "valor_gpu": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in names},
        "libraries": {name: _library_facts(name) for name in LIBRARIES},
    }
    facts.update(_torch_facts())
    facts["advice"] = _advice(facts)
    return facts


def _library_facts(name: str) -> dict[str, Any]:
    found = {"available": native.available(name), "reason": native.explanation(name)}
    return {**found, "build": native.build_record().get(name)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        found = importlib.util.find_spec(package.lower()) is not None
        return "version unknown" if found else None


def _torch_facts() -> dict[str, Any]:
    """``devices``, ``cuda`` and ``ops``; without a torch that loads, why."""
    try:
        import torch

        from valor_gpu import ops
    except MissingPackageError as error:
        return {"devices": [], "cuda": f"none: {error.package} is missing", "ops": []}
    except (ImportError, OSError) as error:
        return {"devices": [], "cuda": f"torch does not load: {error}", "ops": []}
    model = platform.processor() or platform.machine()
    devices: list[dict[str, Any]] = [{"name": "cpu", "model": model, "threads": torch.get_num_threads()}]
    devices += [_cuda_device(index) for index in range(torch.cuda.device_count())]
    for device in devices:
        device["check"] = _check(device["name"])
    kernels = [
        {
            "name": op.name,
            "cpu": {"kernel": op.cpu.kind, "reason": op.cpu.reason},
            "cuda": {"kernel": op.cuda.kind, "reason": op.cuda.reason, "disabled": op.cuda.disabled},
        }
        for op in ops.backends()
    ]
    return {"devices": devices, "cuda": _cuda_reason(len(devices) - 1), "ops": kernels}


def _check(device: str) -> str:
    """``fine``, or what happens when a kernel runs on ``device``."""
    import torch

    from valor_gpu.ops import box_iou

    try:
        box = torch.tensor([[0.0, 0.0, 2.0, 2.0]], device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a missing library, which the report names anyway
            found = box_iou(box, box).item()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "fine" if found == 1.0 else f"box_iou of a box with itself gives {found}"


def _cuda_device(index: int) -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(index)
    return {
        "name": f"cuda:{index}",
        "model": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
    }


def _cuda_reason(devices: int) -> str:
    import torch

    if torch.version.cuda is None:
        return f"none: torch {torch.__version__} was built without CUDA"
    if not devices:
        return f"none: torch {torch.__version__} has CUDA {torch.version.cuda} but finds no device"
    return f"{plural(devices, 'device')}, torch {torch.__version__} has CUDA {torch.version.cuda}"


def _advice(facts: Mapping[str, Any]) -> list[str]:
    advice = []
    libraries, has_cuda = facts["libraries"], any(device["name"] != "cpu" for device in facts["devices"])
    if absent := [name for name in ("torch", "torchmetrics") if facts["packages"][name] is None]:
        advice.append(f"metrics of tensors need {' and '.join(absent)}: pip install {LINES['torch']}")
    if not libraries["valor_cpu"]["available"]:
        advice.append(f"plain torch serves CPU tensors, slowly: {native.remedy('valor_cpu')}")
    if has_cuda and not libraries["valor_cuda"]["available"]:
        advice.append(f"plain torch serves CUDA tensors, slowly: {native.remedy('valor_cuda')}")
        if facts["packages"]["triton"] is None:
            advice.append("Triton can serve logits of label maps without it: pip install 'valor_gpu[triton]'")
    if off := [op["name"] for op in facts["ops"] if op["cuda"]["disabled"]]:
        advice.append(f"{VARIABLE} is set: plain PyTorch serves {', '.join(off)} on CUDA, slowly")
    return advice


def doctor_text(facts: Mapping[str, Any]) -> str:
    """The facts of :func:`survey` to read."""
    title = f"valor_gpu {facts['valor_gpu']}, Python {facts['python']}, {facts['platform']}"
    parts = {
        "packages": _pairs([[name, _package_text(name, version)] for name, version in facts["packages"].items()]),
        "devices": _pairs([[device["name"], _device_text(device)] for device in facts["devices"]] + _no_cuda(facts)),
        "native libraries": "\n".join(map(_library_text, facts["libraries"].values())),
        "kernels": _kernel_table(facts),
        "advice": "\n".join(facts["advice"]),
    }
    sections = [f"{name}\n{_indented(text)}" for name, text in parts.items() if text]
    return "\n\n".join([title, *sections])


def _no_cuda(facts: Mapping[str, Any]) -> list[list[str]]:
    return [] if any(device["name"] != "cpu" for device in facts["devices"]) else [["cuda", facts["cuda"]]]


def _library_text(found: Mapping[str, Any]) -> str:
    """Why a library serves or does not, and what built it."""
    build = found["build"]
    if not found["available"] or not build or not build["built"]:
        return str(found["reason"]) + _log_text(build)
    archs = "".join(f" sm_{arch}" for arch in build.get("architectures", ()))
    text = f"{found['reason']}, built by {build['compiler']} ({build['version']})" + (f" for{archs}" if archs else "")
    if "failed" in build:
        text += f"; older than its sources, since the last build failed: {build['failed']}{_log_text(build)}"
    return text


def _log_text(build: Mapping[str, Any] | None) -> str:
    """Returns where all that the compilers printed is, as long as it is there."""
    log = (build or {}).get("log")
    return f"; all output: {log}" if log and os.path.exists(log) else ""


def _pairs(rows: list[list[str]]) -> str:
    return table(rows[0], rows[1:], left=2) if rows else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _package_text(name: str, version: str | None) -> str:
    if version is not None:
        return version
    extra = next((extra for extra, packages in EXTRAS.items() if name in packages), None)
    return f"missing: pip install {LINES[name]}" if extra is None else f"missing: pip install 'valor_gpu[{extra}]'"


def _device_text(device: Mapping[str, Any]) -> str:
    if "threads" in device:
        what = plural(device["threads"], "thread")
    else:
        what = f"compute capability {device['capability']}, {device['memory_bytes'] / 2**30:.0f} GiB"
    return f"{device['model']}, {what}, " + (
        "kernels run" if device["check"] == "fine" else f"FAILS: {device['check']}"
    )


def _kernel_table(facts: Mapping[str, Any]) -> str:
    def served(op: Mapping[str, Any], device: str) -> str:
        return f"{op[device]['kernel']}: {op[device]['reason']}"

    rows = [[op["name"], served(op, "cpu"), served(op, "cuda")] for op in facts["ops"]]
    return table(["op", "CPU tensors", "CUDA tensors"], rows, left=3) if rows else ""
