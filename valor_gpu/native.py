"""Loads the two native libraries by ctypes. No torch: host text kernels use them too.

Every C function returns an int32 status, 0 for success, and lets no C++ exception out (csrc/cpu/guard.h). Pointers
are plain integers (``tensor.data_ptr()``, ``array.ctypes.data``); ctypes releases the GIL during the call.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from valor_gpu._declarations import TABLE, Declarations
from valor_gpu.errors import NativeError

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(_FOLDER)
_CODES: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "d": ctypes.c_double,
    "i": ctypes.c_int32,
    "o": ctypes.py_object,
}
"""Types by the letters of :mod:`valor_gpu._declarations`."""
_PLAIN = str.maketrans(".[", "__", "]")

_COMPILERS = {"valor_cpu": "a C++17 compiler", "valor_cuda": "nvcc"}
_VARIABLES = {"valor_cpu": "VALOR_GPU_CPU", "valor_cuda": "VALOR_GPU_CUDA"}
_OUT_OF_MEMORY = -1  # Status in csrc/cpu/guard.h
ACTIVATE = 2
"""Status of :func:`update_function`: the scores have to go through their activation first."""

Function = Callable[..., int]


@functools.cache
def build_record() -> dict[str, dict[str, Any]]:
    """Returns the record that setup.py wrote of each library.

    Returns:
        Name of a library to ``built`` and either ``compiler``, ``version`` and for CUDA ``architectures``, or the
        ``reason`` why it is missing. ``failed`` says why the last build failed and left the library before as it was,
        and ``log`` names the file with all that the compilers printed. Empty in a checkout where nothing was built yet.
    """
    import json

    try:
        with open(os.path.join(_FOLDER, "_build.json")) as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


@functools.cache
def _sources(name: str) -> Declarations | None:
    """Returns the declarations of a library in a checkout, None in an installed package."""
    return Declarations.read(name, _ROOT)


@functools.cache
def _table() -> dict[str, str]:
    """Returns library and name of each function and struct to its line of the table in an installed package."""
    try:
        with open(os.path.join(_FOLDER, TABLE)) as file:
            entries = [line.rstrip("\n").split(" ", 2) for line in file]
        return {f"{library} {name}": rest for library, name, rest in entries}
    except (OSError, ValueError):  # a table that was cut off is none
        return {}


def _entry(library: str, name: str) -> str | None:
    """Returns the entry of a function or struct in the table, None if the library has none of that name."""
    sources = _sources(library)
    return sources.entry(name) if sources else _table().get(f"{library} {name}")


@functools.cache
def _load(name: str) -> tuple[ctypes.CDLL | None, str]:
    """Returns a library, None if it cannot be called, and a line that says why."""
    file = f"lib{name}.so"
    path = os.path.join(_FOLDER, file)
    if not os.path.exists(path):
        return None, f"{file} was not built"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return None, f"{file} does not load: {error}"
    sources = _sources(name)
    if sources and sources.hash != _hash_of(library):
        return None, f"{file} was built from other sources: {_build_line(name)}"
    if not sources and _table().get(f"{name} hash") != str(_hash_of(library)):
        return None, f"{file} and {TABLE} are not of one build: install the package again"
    return library, f"{file} loaded"


def _hash_of(library: ctypes.CDLL) -> int | None:
    """Returns the hash of the declarations that a library was built from, None for one that is older than the hash."""
    return int(library.valor_declarations()) if hasattr(library, "valor_declarations") else None


def available(name: str) -> bool:
    """Returns whether library ``name`` (``valor_cpu`` or ``valor_cuda``) can be called."""
    return _load(name)[0] is not None


def reason(name: str) -> str:
    """Returns one line that says why library ``name`` can, or cannot, be called."""
    return _load(name)[1]


def _build_line(name: str) -> str:
    """Returns the command that builds one library in a checkout and leaves the other as it is."""
    wanted = [f"{variable}={int(each == name)}" for each, variable in _VARIABLES.items()]
    if archs := build_record().get(name, {}).get("architectures"):
        wanted.append(f"VALOR_GPU_ARCHS='{';'.join(archs)}'")
    return f"run in {_ROOT}: {' '.join(wanted)} {sys.executable or 'python'} setup.py -q build_ext --inplace"


def remedy(name: str) -> str:
    """Returns the command that builds or installs library ``name``.

    A plain ``pip install`` would reuse the wheel that it cached before the compiler was there.
    """
    if _sources(name):
        return f"with {_COMPILERS[name]} installed, {_build_line(name)}"
    return (
        f"with {_COMPILERS[name]} installed, run in the source folder:"
        f" {_VARIABLES[name]}=1 pip install --no-cache-dir --force-reinstall --no-deps ."
    )


def explanation(name: str) -> str:
    """Returns :func:`reason` and, where setup.py recorded it, why the library was not built."""
    record = build_record().get(name, {})
    why = "" if available(name) else record.get("failed") or record.get("reason", "")
    return f"{reason(name)}: {why}" if why else reason(name)


def slow(name: str) -> str:
    """Returns the warning at the first use of a missing library ``name``."""
    text = f"{explanation(name)}; its plain Python definitions serve, slowly"
    return text if _build_line(name) in text else f"{text}: {remedy(name)}"


@functools.cache
def warn_once(message: str) -> None:
    """Warns the first time that this process calls it with the message."""
    warnings.warn(message, stacklevel=3)


def usable(name: str) -> bool:
    """Returns whether library ``name`` can be called. The first call for a missing library warns of the slower path."""
    if not available(name):
        warn_once(slow(name))
    return available(name)


def _status_text(library: ctypes.CDLL, status: int) -> str:
    """Returns CUDA's words for a status; empty for the CPU library."""
    if not hasattr(library, "valor_status_text"):
        return ""
    library.valor_status_text.restype = ctypes.c_char_p
    return f": {library.valor_status_text(ctypes.c_int32(status)).decode()}"


def _op_name(symbol: str) -> str:
    """Returns the name of an op: ``box_iou`` for ``valor_box_iou_cpu``."""
    return symbol.removeprefix("valor_").removesuffix("_cpu").removesuffix("_cuda")


@functools.cache
def function(library: str, symbol: str) -> Function:
    """Returns a C function that raises :class:`NativeError` on a status other than 0, or MemoryError.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        symbol: the exported name.
    """
    loaded, entry = _bound(library, symbol)
    entry.errcheck = lambda status, *_: _checked(loaded, symbol, status)
    return entry  # type: ignore[no-any-return]


def _bound(library: str, symbol: str) -> tuple[ctypes.CDLL, Any]:
    """Returns a library and a new object for one of its functions, which checks no status."""
    loaded, why = _load(library)
    if loaded is None:
        raise NativeError(why)
    letters = _entry(library, symbol)
    if letters is None or not hasattr(loaded, symbol):
        raise NativeError(f"lib{library}.so has no {symbol}: it is older than this package, build it again")
    entry = loaded[symbol]  # loaded.symbol is one object for all
    entry.argtypes = [_CODES[letter] for letter in letters]
    entry.restype = ctypes.c_int32
    return loaded, entry


@functools.cache
def struct(library: str, name: str) -> type[ctypes.Structure]:
    """Returns a struct as C++ declares it; ``sides[0].data`` is the field ``sides_0_data``.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        name: of the struct, whose fields have 8 bytes each.

    Raises:
        NativeError: there is no such struct.

    Example:
        >>> struct("valor_cpu", "PairSides")(1, gt_rows=2).rows
        1
    """
    letters, *names = (_entry(library, name) or "").split(" ")
    if not names:
        raise NativeError(f"lib{library}.so has no struct {name} of fields of 8 bytes")
    kinds = [(field.translate(_PLAIN), _CODES[letter]) for field, letter in zip(names, letters)]
    return type(name, (ctypes.Structure,), {"_fields_": kinds, "__slots__": ()})  # no attribute but the fields


@functools.cache
def fields(library: str, name: str) -> dict[str, int]:
    """Returns the names of the fields of :func:`struct`, each with its place."""
    return {field[0]: place for place, field in enumerate(struct(library, name)._fields_)}


def _checked(library: ctypes.CDLL, symbol: str, status: int) -> int:
    if status == _OUT_OF_MEMORY:
        raise MemoryError(f"{_op_name(symbol)} needs more memory than there is")
    if status != 0:
        raise NativeError(f"{symbol} failed with status {status}{_status_text(library, status)}")
    return status


def once_function(library: str, symbol: str) -> Callable[[Sequence[Any], list[int]], None]:
    """Returns a C function that runs and records its status in one step, which no interrupt can split.

    Python handles an interrupt between two steps. Here the call and the record are one step, so the list tells
    afterwards whether the function has run. The result takes the arguments of the C function and an empty list, to
    which it appends the status. It raises as :func:`function` does.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        symbol: the exported name.
    """
    loaded, entry = _bound(library, symbol)  # without errcheck, which is a step of Python

    def call(arguments: Sequence[Any], statuses: list[int]) -> None:
        statuses.extend(map(entry, *([value] for value in arguments)))
        _checked(loaded, symbol, statuses[0])

    return call


@functools.cache
def update_function(library: str, symbol: str) -> Callable[[bytes, bytes], int] | None:
    """Returns an unchecked C function that adds a small batch to a state; None where the library is missing.

    A status other than 0 says that the batch was not added, for whatever reason. Arguments are ``bytes``, because the
    checks and conversions of ctypes would take longer than the call.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        symbol: the exported name of a function that takes pointers only.
    """
    loaded = _load(library)[0]
    return None if loaded is None or not hasattr(loaded, symbol) else loaded[symbol]  # not the cached loaded.symbol


def threads() -> int:
    """Returns the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
