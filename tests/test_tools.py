"""The checks of ``make check`` see what they are to see."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_ceilings, docstrings, install_oracle, minimum

PYTHON = '''
def short(): return 1

class Kind:
    async def method(self):
        """Two lines
        of docstring."""
        if self:

            return 1
'''

CPP = """
#define OPEN(x) \\
  do { x; } while (0)
namespace valor {
struct Row { int a; };
inline int one(int x) { return x; }
template <class T>
T several(const Map<int, T>& map, const char* text = "){") {
  if (map.empty()) {  // }
    return T{};
  }
  auto inner = [&](int i) {
    return i;
  };
  return inner(2);
}
class Kind {
 public:
  Kind(int a) : a_(a) {
    a_ += 1;
  }
  int get() const noexcept {
    return a_;
  }
};
}  // namespace valor
"""


def test_python_bodies_are_counted_without_docstrings() -> None:
    assert sorted(check_ceilings.python_bodies(PYTHON)) == [("method", 5, 3), ("short", 2, 1)]


def test_cpp_functions_are_found_by_their_braces() -> None:
    found = [(name, length) for name, _, length in check_ceilings.cpp_bodies(CPP)]
    assert found == [
        ("inline int one(int x)", 0),
        ("T several(const Map<int, T>& map, const char* text =     )", 7),
        ("Kind(int a) : a_(a)", 1),
        ("int get() const noexcept", 1),
    ]


def test_long_files_and_functions_are_named(tmp_path: Path) -> None:
    long = tmp_path / "long.py"
    long.write_text("def f():\n" + "    x = 1\n" * 41 + "\n" * 360)
    assert list(check_ceilings.complaints(long)) == [
        f"{long}: 402 lines, at most 400 are allowed",
        f"{long}:1: f: body of 41 lines, at most 40 are allowed",
    ]
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("__global__ void f() {\n" + "  g();\n" * 42 + "}\n")
    assert list(check_ceilings.complaints(kernel)) == [
        f"{kernel}:1: __global__ void f(): body of 42 lines, at most 40 are allowed"
    ]


def test_every_cpp_file_has_functions_that_are_seen() -> None:
    csrc = Path(__file__).parent.parent / "csrc"
    blind = [p.name for p in csrc.rglob("*.cpp") if not list(check_ceilings.cpp_bodies(p.read_text()))]
    assert blind == []


def test_docstrings_become_markdown() -> None:
    doc = """Sum of :class:`~valor_gpu.state.State` and ``x``.

    Args:
        x: first,
            and more.
        y: second.

    Example:
        >>> 1 + 1
        2
    """
    assert docstrings.markdown(doc) == (
        "Sum of `State` and `x`.\n\n**Args**\n\n- `x`: first,\n  and more.\n- `y`: second.\n\n"
        "**Example**\n\n```python\n>>> 1 + 1\n2\n```"
    )


def test_torchvision_goes_in_step_with_torch() -> None:
    assert install_oracle.matching_release("2.13.0+cpu") == "0.28.0"
    with pytest.raises(SystemExit, match=r"no torchvision is known for torch 3\.0\.0"):
        install_oracle.matching_release("3.0.0")


LOCK = """lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "made-of-source"
version = "1.0"
sdist = { url = "https://index/made_of_source-1.0.tar.gz", size = 250000, hashes = { sha256 = "00" } }

[[packages]]
name = "torch"
version = "2.6.0"
sdist = { url = "https://index/torch-2.6.0.tar.gz", size = 5, hashes = { sha256 = "00" } }
wheels = [
    { url = "https://index/torch-2.6.0-py3-none-any.whl", size = 10, hashes = { sha256 = "00" } },
    { url = "https://index/torch-2.6.0-cp311-cp311-linux_x86_64.whl", size = 766715424, hashes = { sha256 = "00" } },
]

[[packages]]
name = "unsaid"
version = "3"
wheels = [{ url = "https://index/unsaid-3-py3-none-any.whl", hashes = { sha256 = "00" } }]
"""
PACKAGES = [
    minimum.Package("made-of-source", "1.0", 250_000),
    minimum.Package("torch", "2.6.0", 766_715_424),
    minimum.Package("unsaid", "3", None),
]


def test_sizes_are_read_from_the_lock_file() -> None:
    assert minimum.packages(LOCK) == PACKAGES
    assert minimum.packages('lock-version = "1.0"') == []


def test_the_summary_counts_what_is_missing() -> None:
    assert minimum.summary(PACKAGES, set()) == (
        "to download: 0.8 GB in 3 packages (torch 2.6.0 0.8 GB, made-of-source 1.0 0.2 MB), and unsaid 3,"
        " whose size the index does not give; on disk 2 to 4 times as much"
    )
    there = {("torch", "2.6.0"), ("unsaid", "3"), ("made-of-source", "0.9")}
    assert minimum.summary(PACKAGES, there) == (
        "to download: 0.2 MB in 1 package (made-of-source 1.0 0.2 MB); on disk 2 to 4 times as much"
    )
    assert minimum.summary(PACKAGES, there | {("made-of-source", "1.0")}) == ""


def test_uv_asks_the_indexes_of_pip() -> None:
    configured = (
        "global.index-url='https://main/simple'\n:env:.extra-index-url='https://one/cpu https://two'\n"
        "global.find-links='https://no'\nglobal.extra-index-url='file:///disk'\n"
    )
    expected = ["--default-index", "https://main/simple", "--index", "https://one/cpu", "--index", "https://two"]
    assert minimum.indexes(configured) == expected


def test_another_torch_replaces_the_oldest(capsys: pytest.CaptureFixture[str]) -> None:
    minimum.main(["--torch", "2.8.0"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "torch==2.8.0"
    minimum.main([])
    others = capsys.readouterr().out.splitlines()
    assert lines[1:] == others[1:] and others[0].startswith("torch==") and len(others) == 3


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (
            ["", LOCK, '[{"name": "Made_of.Source", "version": "1.0"}, {"name": "torch", "version": "2.6.0"}]'],
            "unsaid 3",
        ),
        (
            ["", subprocess.CalledProcessError(1, "uv", stderr="error: no network\n  cause")],
            r"not known \(error: no net",
        ),
        ([OSError("no such python")], r"the size is not known \(no such python\)"),
    ],
)
def test_an_unknown_size_stops_nothing(calls: list[object], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = iter(calls)

    def answer(*command: str) -> str:
        if isinstance(reply := next(replies), Exception):
            raise reply
        return str(reply)

    monkeypatch.setattr(minimum, "_lines", answer)
    assert re.search(expected, minimum.download(sys.executable, ["torch==2.6.0"]))
    assert list(replies) == []
