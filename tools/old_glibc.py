"""Links a shared library that loads wherever glibc is at least a given release, on a machine whose glibc is newer.

The linker binds a symbol to the newest version that the C library beside it has. Here it sees libraries without code
instead, made for the one link: each has the symbols that are needed in the newest version that the old release had.
libstdc++ comes from its archive and is not exported. The build runs this file where VALOR_GPU_GLIBC names a release.

The versions of PEP 600's policies; symbol versions are those that ``nm`` lists for the C library of this machine,
which keeps every older version.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# What libstdc++ or a program asks of the C library that older ones lack, or have in an archive alone.
SHIM = """
#include <stdint.h>
#include <stddef.h>
#define HIDDEN __attribute__((visibility("hidden")))
extern void *__dso_handle;
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
extern int __cxa_atexit(void (*)(void *), void *, void *);
extern long syscall(long, ...);
HIDDEN char __libc_single_threaded = 0;
HIDDEN int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(before, parent, child, __dso_handle);
}
HIDDEN int atexit(void (*work)(void)) { return __cxa_atexit((void (*)(void *))work, NULL, __dso_handle); }
HIDDEN uint32_t arc4random(void) {
  uint32_t word;
  while (syscall(318 /* getrandom on x86_64 */, &word, sizeof word, 0) != sizeof word) {}
  return word;
}
"""

HOLDERS = ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2")
"""Where symbols are looked up here. Since 2.34 the first holds those of libpthread, libdl and librt as well."""


class Symbol(NamedTuple):
    """A symbol of the C library: its version, and the library that had it before 2.34."""

    name: str
    version: str
    home: str


def newest(versions: Sequence[str], limit: str) -> str | None:
    """The newest of ``GLIBC_x.y`` that is not above ``limit``; None if all are."""
    fitting = [v for v in versions if re.fullmatch(r"GLIBC_[\d.]+", v) and _number(v[6:]) <= _number(limit)]
    return max(fitting, key=lambda v: _number(v[6:]), default=None)


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _home(name: str, holder: str) -> str:
    """The library that had a symbol before 2.34."""
    if holder != "libc.so.6":
        return holder
    if re.match(r"pthread_|sem_", name):
        return "libpthread.so.0"
    if re.fullmatch(r"dl(open|close|error|v?sym|m?open|addr1?)", name):
        return "libdl.so.2"
    return "librt.so.1" if re.match(r"shm_|timer_|mq_|aio_", name) else holder


def needed(library: Path) -> set[str]:
    """Symbols without a version that a shared library leaves to others, weak ones aside."""
    lines = _output("nm", "-D", "--undefined-only", library).splitlines()
    return {line.split()[1] for line in lines if line.split()[0] == "U" and "@" not in line}


def resolve(names: set[str], limit: str, compiler: Sequence[str]) -> list[Symbol]:
    """Each name as a release had it; raises ValueError naming those that it lacks."""
    found: dict[str, Symbol] = {}
    for holder in HOLDERS:
        versions = defaultdict(list)
        for line in _output(
            "nm", "-D", "--with-symbol-versions", "--defined-only", _part(compiler, holder)
        ).splitlines():
            name, _, version = line.split()[-1].partition("@")
            versions[name].append(version.lstrip("@"))
        for name in names & set(versions) - set(found):
            if fitting := newest(versions[name], limit):
                found[name] = Symbol(name, fitting, _home(name, holder))
    if missing := sorted(names - set(found)):
        raise ValueError(
            f"glibc {limit} has no {', '.join(missing)}: write another call, or add it to tools/old_glibc.py"
        )
    return sorted(found.values())


def stubs(symbols: Sequence[Symbol], folder: Path, compiler: Sequence[str]) -> list[str]:
    """Libraries without code that have these symbols in these versions; their paths."""
    made = []
    for library in sorted({symbol.home for symbol in symbols}):
        own = [symbol for symbol in symbols if symbol.home == library]
        code = "".join(f".globl {s.name}\n.type {s.name}, @function\n{s.name}: ret\n" for s in own)
        versions = sorted({s.version for s in own}, key=lambda v: _number(v[6:]))
        script = "".join(f"{v} {{ {' '.join(f'{s.name};' for s in own if s.version == v)} }};\n" for v in versions)
        (folder / "stub.s").write_text(".text\n" + code)
        (folder / "stub.map").write_text(script)
        options = ["-shared", "-nostdlib", f"-Wl,-soname,{library}", f"-Wl,--version-script={folder / 'stub.map'}"]
        _output(*compiler, *options, folder / "stub.s", "-o", folder / library)
        made.append(str(folder / library))
    return made


def link(
    compiler: Sequence[str], objects: Sequence[str], output: str, release: str, archives: Sequence[str] = ()
) -> None:
    """Link ``objects`` into the shared library ``output`` for glibc ``release`` and newer, and load it.

    Args:
        compiler: command of g++.
        objects: object files, made with -fPIC.
        output: of the library, which exports the functions ``valor_*`` and nothing of libstdc++, whose own objects
            in the same process would otherwise be served by this copy.
        release: of glibc, such as ``2.28``.
        archives: static libraries that the objects need beside libstdc++.

    Raises:
        ValueError: a symbol is needed that this release lacks.
        subprocess.CalledProcessError: the compiler, the linker or nm failed.
        OSError: the library does not load.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "shim.c").write_text(SHIM)
        (folder / "exports.map").write_text("{ global: valor_*; local: *; };\n")
        _output(*compiler, "-x", "c", "-O2", "-fPIC", "-w", "-c", folder / "shim.c", "-o", folder / "shim.o")
        first, last = ["crti.o", "crtbeginS.o"], ["libgcc.a", "crtendS.o", "crtn.o"]
        begin = [*compiler, "-shared", "-nostdlib", *(_part(compiler, name) for name in first), *objects]
        begin += [
            str(folder / "shim.o"),
            *archives,
            "-Wl,--gc-sections",
            f"-Wl,--version-script={folder / 'exports.map'}",
        ]
        begin += [_part(compiler, name) for name in ("libstdc++.a", "libgcc.a", "libgcc_s.so.1")]
        end = [_part(compiler, name) for name in last]
        draft = folder / "draft.so"
        _output(*begin, *end, "-Wl,--unresolved-symbols=ignore-all", "-o", draft)
        made = stubs(resolve(needed(draft), release, compiler), folder, compiler)
        _output(*begin, "-Wl,--as-needed", *made, *end, "-Wl,-z,defs", "-s", "-o", output)
    ctypes.CDLL(os.path.abspath(output), mode=os.RTLD_NOW)


def _part(compiler: Sequence[str], name: str) -> str:
    return _output(*compiler, f"-print-file-name={name}").strip()


def _output(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def main(release: str, output: str, compiler: str, *files: str) -> int:
    """Runs :func:`link` with object files and archives; returns the exit code."""
    objects = [name for name in files if not name.endswith(".a")]
    try:
        link(shlex.split(compiler), objects, output, release, [name for name in files if name.endswith(".a")])
    except (ValueError, OSError) as error:
        print(f"error: VALOR_GPU_GLIBC={release}: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: VALOR_GPU_GLIBC={release}: {error.cmd[0]} failed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
