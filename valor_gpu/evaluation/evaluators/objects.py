"""Objects by the text that names them: ``package.module:name`` or ``folder/file.py:name``. No torch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import content_hash
from valor_gpu.evaluation.evaluators.custom import source_of
from valor_gpu.judge.protocol import describe

_NAMED = re.compile(r"(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|[^:\n]{1,1000}\.py):[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def is_object_name(text: str) -> bool:
    """Whether a text names an object.

    Example:
        >>> is_object_name("app.chat:answer"), is_object_name("app/chat.py:answer"), is_object_name("https://host")
        (True, True, False)
    """
    return _NAMED.fullmatch(text) is not None


def load_object(name: str, what: str = "target") -> Any:
    """The object that ``module:name`` or ``file.py:name`` names. Modules are looked for in the current folder too.

    Args:
        name: of the object; a dotted one behind the colon is an attribute of an attribute.
        what: the argument that names it, for messages.

    Raises:
        InputError: no such name, module or object, or a module that raises when it is imported.

    Example:
        >>> load_object("json:dumps")({})
        '{}'
    """
    if not is_object_name(name):
        raise InputError(f"{what} must be named as 'module:function' or 'file.py:function' but got {name!r:.200}")
    place, _, path = name.rpartition(":")
    module = _of_file(place, what) if place.endswith(".py") else _of_name(place, what)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            near = near_names(part, [each for each in dir(found) if not each.startswith("_")])
            raise InputError(f"{what} must be an object of {place} but it has no {part!r}{near}")
        found = getattr(found, part)
    return found


def _of_name(name: str, what: str) -> ModuleType:
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)  # as `python` itself has it; a console script has not
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise InputError(f"{what} must be in a module that can be imported but there is no {missing!r}") from None
        raise InputError(f"{what}: module {name} cannot be imported: {error}") from error
    except Exception as error:
        raise InputError(f"{what}: module {name} cannot be imported: {describe(error)}") from error
    finally:
        if added:
            sys.path.remove(here)


def _of_file(place: str, what: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise InputError(f"{what} must be in a file that is there but {place!r} is not")
    # One module for one file: objects of it are the same wherever it is named.
    name = f"_valor_gpu_{hashlib.sha256(str(path).encode(errors='surrogateescape')).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{what} must be in a file of Python but {place!r} is none")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent)
    sys.path.insert(0, folder)  # as for `python file.py`: its neighbours can be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"{what}: {place} cannot be imported: {describe(error)}") from error
    finally:
        sys.path.remove(folder)
    return module


def origin_of(function: Any) -> str | None:
    """``module:name`` under which another process finds an object; None where it finds none.

    Example:
        >>> import json
        >>> origin_of(json.dumps), origin_of(lambda: 0)
        ('json:dumps', None)
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or "<" in name:
        return None
    if module.startswith("_valor_gpu_"):
        return f"{getattr(sys.modules.get(module), '__file__', '')}:{name}"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None


def code_hash(function: Callable[..., Any]) -> str:
    """Hash of the code of a function, class or method, of an object that of its class; empty where it cannot be read.

    Example:
        >>> len(code_hash(describe)), code_hash(len)
        (16, '')
    """
    source = source_of(function)
    return content_hash(source) if source else ""
