"""The checks of ``make check`` see what they are to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_ceilings, docstrings, install_oracle

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
