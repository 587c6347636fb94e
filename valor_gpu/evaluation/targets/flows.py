"""Flows: what ``flow.flex.yaml`` names as the entry of a folder, and what cannot be run. No torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

from valor_gpu.errors import InputError

_ALTERNATIVES = (
    "give a Python function, 'module:function', the address of an HTTP endpoint, or {'model': ..., 'prompt': ...}"
)


def check_address_of_flow(text: str) -> None:
    """Raises :class:`InputError` for an address of Azure's own, which names alternatives."""
    scheme = text.partition(":")[0].lower()
    if scheme in ("azureml", "azure", "runs"):
        raise InputError(
            f"target must run on this machine, but {scheme}: addresses need Azure's service: {_ALTERNATIVES}"
        )


def entry_of_flow(folder: str | os.PathLike[str]) -> str | None:
    """The function that a folder, or its flow file, names: ``file.py:name``; None where it is no flow.

    Raises:
        InputError: a flow whose graph is in ``flow.dag.yaml``, or a flow file without an entry.
    """
    path = Path(folder).expanduser()
    files = {path.name.lower(): path} if path.is_file() else {name: path / name for name in _NAMES}
    for name in (*(each for each in files if each in _FLEX), *(each for each in files if each in _GRAPHS)):
        if files[name].is_file():
            if name in _GRAPHS:
                raise InputError(
                    f"target must be a flow with an entry, but {files[name]} is a graph of nodes, which is not run "
                    f"here: {_ALTERNATIVES}"
                )
            return _entry(files[name])
    if path.is_dir():
        raise InputError(f"target must be a flow, but the folder {str(path)!r} has no flow.flex.yaml: {_ALTERNATIVES}")
    return None


_FLEX = ("flow.flex.yaml", "flow.flex.yml")
_GRAPHS = ("flow.dag.yaml", "flow.dag.yml")
_NAMES = (*_FLEX, *_GRAPHS)
# One key of one line: no parser of YAML is needed for it.
_ENTRY = re.compile(r"^entry[ \t]*:[ \t]*[\"']?([\w./-]+):([\w.]+)[\"']?[ \t]*(?:#.*)?$", re.MULTILINE | re.ASCII)


def _entry(file: Path) -> str:
    """The function that a flow file names, by a path that begins with its folder."""
    try:
        found = _ENTRY.search(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"target: {file} cannot be read: {error}") from None
    if found is None:
        raise InputError(f"target: {file} must have a line 'entry: module:function' but has none")
    module, name = found.groups()
    place = file.parent / (module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
    return f"{place}:{name}" if place.is_file() else f"{module}:{name}"
