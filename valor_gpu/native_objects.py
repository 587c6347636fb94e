"""C functions that read and make Python objects, for calls whose work is shorter than an array takes to make. No torch.

They hold the GIL. The library links no Python: it is given the addresses of functions of the stable ABI, once.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from valor_gpu import native

_FUNCTIONS = (
    *("PyDict_GetItemWithError", "PyDict_New", "PyDict_SetItem", "PyList_Size", "PyList_GetItem", "PyList_New"),
    *("PyList_SetItem", "PyTuple_Size", "PyTuple_GetItem", "PyBytes_AsStringAndSize", "PyBytes_FromStringAndSize"),
    *("PyUnicode_AsUTF8AndSize", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyFloat_AsDouble"),
    *("PyByteArray_FromStringAndSize", "PyByteArray_AsString", "PyObject_GetBuffer", "PyBuffer_Release"),
    *("PyErr_Occurred", "PyErr_Clear", "PyErr_NoMemory", "PyObject_CallOneArg", "Py_IncRef", "Py_DecRef"),
)
_OBJECTS = (None, dict, list, tuple, bytes, str, int, bool, float, np.float64, "size", "counts")
"""Both in the order of Host in csrc/cpu/host_objects.h."""


@functools.cache
def function(library: str, symbol: str) -> Callable[..., Any]:
    """A C function of objects. It gives None for what it does not read, and so does :func:`nothing` in its place.

    Args:
        library: ``valor_cpu``.
        symbol: the exported name.
    """
    loaded, letters = native._load(library)[0], native._entry(library, symbol)
    if loaded is None or letters is None or not hasattr(loaded, symbol) or not _host_is_known():
        return nothing
    entry = ctypes.PyDLL(loaded._name, handle=loaded._handle)[symbol]
    entry.argtypes = [ctypes.py_object] * len(letters)
    entry.restype = ctypes.py_object
    return entry


def nothing(*_: Any) -> None:
    """Stands in where there is no library, or another Python than CPython with a GIL."""


@functools.cache
def _host_is_known() -> bool:
    """Hands the functions and objects of this Python over; False where objects are not laid out as C++ reads them."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.implementation.name != "cpython" or not gil:
        return False
    types = (ctypes.c_void_p.from_address(id(one) + ctypes.sizeof(ctypes.c_void_p)).value for one in _OBJECTS)
    if any(found != id(type(one)) for found, one in zip(types, _OBJECTS)):
        return False
    if not all(hasattr(ctypes.pythonapi, name) for name in _FUNCTIONS):
        return False  # a program that hides the functions of the Python within it
    addresses = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    table = (ctypes.c_void_p * (len(_FUNCTIONS) + len(_OBJECTS)))(*addresses, *map(id, _OBJECTS))
    native.function("valor_cpu", "valor_set_host_cpu")(ctypes.addressof(table))
    return True
