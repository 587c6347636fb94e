"""Loads the two native libraries by ctypes. No torch: host text kernels use them too.

Every C function returns an int32 status, 0 for success, and lets no C++ exception out (csrc/cpu/guard.h). Pointers
are plain integers (``tensor.data_ptr()``, ``array.ctypes.data``); ctypes releases the GIL during the call.
"""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from valor_gpu.errors import NativeError

ABI_VERSION = 1
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CODES = {"p": ctypes.c_void_p, "q": ctypes.c_int64, "d": ctypes.c_double, "i": ctypes.c_int32}

_COMPILERS = {"valor_cpu": "a C++17 compiler", "valor_cuda": "nvcc"}
_OUT_OF_MEMORY = -1  # Status in csrc/cpu/guard.h
ACTIVATE = 2
"""Status of :func:`update_function`: the scores have to go through their activation first."""

Function = Callable[..., int]


@functools.cache
def build_record() -> dict[str, dict[str, Any]]:
    """How setup.py built each library.

    Returns:
        Name of a library to ``built`` and either ``compiler``, ``version`` and for CUDA ``architectures``, or the
        ``reason`` why it is missing. Empty in a checkout where nothing was built yet.
    """
    import json

    path = os.path.join(_FOLDER, "_build.json")
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return dict(json.load(file))


@functools.cache
def _load(name: str) -> tuple[ctypes.CDLL | None, str]:
    """The library and the reason why it is, or is not, there."""
    file = f"lib{name}.so"
    path = os.path.join(_FOLDER, file)
    if not os.path.exists(path):
        return None, f"{file} was not built"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return None, f"{file} does not load: {error}"
    found = int(library.valor_abi_version())
    if found != ABI_VERSION:
        return None, f"{file} has ABI {found} but this package needs {ABI_VERSION}: build it again"
    return library, f"{file} loaded"


def available(name: str) -> bool:
    """Whether library ``name`` (``valor_cpu`` or ``valor_cuda``) can be called."""
    return _load(name)[0] is not None


def reason(name: str) -> str:
    """One line that says why library ``name`` can, or cannot, be called."""
    return _load(name)[1]


def remedy(name: str) -> str:
    """How to get library ``name``: pip would install a cached wheel, made before the compiler was there, again."""
    return (
        f"with {_COMPILERS[name]} installed, run in the source folder:"
        " pip install --no-cache-dir --force-reinstall --no-deps ."
    )


def explanation(name: str) -> str:
    """:func:`reason` and, where setup.py recorded it, why the library was not built."""
    why = "" if available(name) else build_record().get(name, {}).get("reason", "")
    return f"{reason(name)}: {why}" if why else reason(name)


def slow(name: str) -> str:
    """The warning at the first use of what library ``name`` would do."""
    return f"{explanation(name)}; its plain Python definitions serve, slowly: {remedy(name)}"


@functools.cache
def warn_once(message: str) -> None:
    """Warns, the first time in this process."""
    warnings.warn(message, stacklevel=3)


def usable(name: str) -> bool:
    """Whether library ``name`` can be called. The first call for one that cannot warns: a slower path follows."""
    if not available(name):
        warn_once(slow(name))
    return available(name)


def _status_text(library: ctypes.CDLL, status: int) -> str:
    """What CUDA says of a status, for the library that launches kernels."""
    if not hasattr(library, "valor_status_text"):
        return ""
    library.valor_status_text.restype = ctypes.c_char_p
    return f": {library.valor_status_text(ctypes.c_int32(status)).decode()}"


def _op_name(symbol: str) -> str:
    """``box_iou`` of ``valor_box_iou_cpu``."""
    return symbol.removeprefix("valor_").removesuffix("_cpu").removesuffix("_cuda")


@functools.cache
def function(library: str, symbol: str, signature: str) -> Function:
    """A C function that raises :class:`NativeError` on a status other than 0, MemoryError where memory ran out.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        symbol: the exported name.
        signature: one letter per argument: p pointer, q int64, d double, i int32.
    """
    loaded, why = _load(library)
    if loaded is None:
        raise NativeError(why)
    if not hasattr(loaded, symbol):
        raise NativeError(f"lib{library}.so has no {symbol}: it is older than this package, build it again")
    entry = getattr(loaded, symbol)
    entry.argtypes = [_CODES[code] for code in signature]
    entry.restype = ctypes.c_int32

    entry.errcheck = lambda status, *_: _checked(loaded, symbol, status)
    return entry  # type: ignore[no-any-return]


def _checked(library: ctypes.CDLL, symbol: str, status: int) -> int:
    if status == _OUT_OF_MEMORY:
        raise MemoryError(f"{_op_name(symbol)} needs more memory than there is")
    if status != 0:
        raise NativeError(f"{symbol} failed with status {status}{_status_text(library, status)}")
    return status


def once_function(library: str, symbol: str, signature: str) -> Callable[[Sequence[Any], list[int]], None]:
    """A C function that leaves word of having run, in one step with that, which no interrupt can part.

    An interrupt comes between two steps of Python. Call and status are one of them here, so that afterwards the list
    says whether the function has run. It takes the arguments of the C function and an empty list, which then has the
    status, and raises as :func:`function` does.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        symbol: the exported name.
        signature: as of :func:`function`.
    """
    function(library, symbol, signature)  # raises where it is missing
    loaded = _load(library)[0]
    assert loaded is not None
    entry: Any = loaded[symbol]  # not the cached loaded.symbol, whose check of the status is a step of Python
    entry.argtypes = [_CODES[code] for code in signature]
    entry.restype = ctypes.c_int32

    def call(arguments: Sequence[Any], statuses: list[int]) -> None:
        statuses.extend(map(entry, *([value] for value in arguments)))
        _checked(loaded, symbol, statuses[0])

    return call


@functools.cache
def update_function(library: str, symbol: str, signature: str) -> Callable[[bytes, bytes], int] | None:
    """A C function that adds a small batch to a state, None where the library is missing; nothing is checked.

    A status other than 0 says that the batch was not added, for whatever reason. Arguments are ``bytes``: checks and
    conversions of ctypes would take longer than the call.

    Args:
        library: ``valor_cpu``.
        symbol: the exported name.
        signature: as of :func:`function`; pointers only.
    """
    loaded = _load(library)[0]
    return None if loaded is None or not hasattr(loaded, symbol) else loaded[symbol]  # not the cached loaded.symbol


def threads() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
