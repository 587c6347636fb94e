"""The C function by which torch tells where a tensor lies, which C++ calls in place of seven methods of Python."""

from __future__ import annotations

import ctypes
import functools

from torch import Tensor

_MAJOR = 1  # of DLPack: the layout that csrc/cpu/tensor_objects.h reads
_CAPSULE = b"dlpack_exchange_api"
_ENTRIES = 5
_READ = 3  # dltensor_from_py_object_no_sync, among the functions behind the header


@functools.cache
def tensor_function() -> int | None:
    """Returns the address of ``dltensor_from_py_object_no_sync`` of DLPack; None where torch has none that is known.

    Source: DLPackExchangeAPI of https://dmlc.github.io/dlpack/latest/c_api.html.
    """
    capsule = getattr(Tensor, "__dlpack_c_exchange_api__", None)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        table = pointer(capsule, _CAPSULE)
    except ValueError:  # no capsule, or one of another name
        return None
    header = 8 + ctypes.sizeof(ctypes.c_void_p)  # the version, then the table of an older version
    if ctypes.c_uint32.from_address(table).value != _MAJOR:
        return None
    return (ctypes.c_void_p * _ENTRIES).from_address(table + header)[_READ]
