"""Files of two folders are paired by their names, and those without a partner are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from valor_gpu.errors import InputError
from valor_gpu.inputs.label_map_pairs import Pairing, Side, hint_at_names, pair_files


def sides(root: Path, *names: str, gt: str = "", pred: str = "") -> tuple[Side, Side]:
    """Two sides with these files."""
    for name in ("gt/.hidden.png", "pred/.git/a.png", *names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return Side(str(root / "gt"), gt, "--gt"), Side(str(root / "pred"), pred, "--pred")


def names(pairing: Pairing) -> list[str]:
    return [pair.name for pair in pairing.pairs]


def test_names_pair_whatever_the_ending(tmp_path: Path) -> None:
    both = sides(
        tmp_path, "gt/b.png", "gt/a.npy", "gt/x.y.PNG", "pred/a.png", "pred/b.npz", "pred/x.y.npy", "gt/a.json"
    )
    found = pair_files(*both)
    assert names(found) == ["a", "b", "x.y"] and found.other_files == 1
    assert (found.pairs[0].ground_truth, found.pairs[0].prediction) == (
        str(tmp_path / "gt/a.npy"), str(tmp_path / "pred/a.png")
    )  # fmt: skip
    assert found.describe_missing(both) == "" and hint_at_names(found, False) == ""


def test_nested_folders_are_part_of_the_name(tmp_path: Path) -> None:
    found = pair_files(*sides(tmp_path, "gt/ulm/a.png", "gt/bonn/a.png", "pred/ulm/a.npy", "pred/bonn/a.npy"))
    assert names(found) == ["bonn/a", "ulm/a"]
    assert found.pairs[0].prediction == str(tmp_path / "pred/bonn/a.npy")


def test_suffixes_choose_and_shorten_names(tmp_path: Path) -> None:
    files = [f"gt/ulm/ulm_0_gtFine_{kind}" for kind in ("labelIds.png", "color.png", "polygons.json")]
    both = sides(tmp_path, *files, "pred/ulm/ulm_0_pred.png", gt="_gtFine_labelIds", pred="_pred")
    found = pair_files(*both)
    assert names(found) == ["ulm/ulm_0"] and found.other_files == 2
    same = Side(str(tmp_path / "gt"), "_gtFine_color", "--pred")
    assert pair_files(both[0], same).pairs[0].prediction.endswith("color.png")


def test_flat_pairs_by_names_alone(tmp_path: Path) -> None:
    both = sides(tmp_path, "gt/ulm/a.png", "gt/bonn/b.png", "pred/a.npy", "pred/b.npy")
    assert names(pair_files(*both, flat=True)) == ["a", "b"]
    found = pair_files(*both)
    assert found.pairs == [] and hint_at_names(found, False).startswith(": --flat pairs files by their names alone")
    (tmp_path / "gt/bonn/a.png").touch()
    with pytest.raises(InputError, match=r"--gt must have one file of each name but has .*/a.png and .*/a.png$"):
        pair_files(*both, flat=True)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"--pred must have one file of each name but has .*pred/a.np. and .*pred/a.np"
    ):
        pair_files(*sides(tmp_path, "gt/a.png", "pred/a.npy", "pred/a.npz"))


def test_lone_files_are_named(tmp_path: Path) -> None:
    more = [f"pred/m{number}.png" for number in range(12)]
    both = sides(tmp_path, "gt/a.png", "gt/b.png", "gt/c.png", "pred/b.png", *more)
    found = pair_files(*both)
    assert names(found) == ["b"] and found.without_prediction == ["a", "c"] and len(found.without_ground_truth) == 12
    assert found.describe_missing(both) == (
        "--pred has no partner of 2: a, c; --gt has no partner of 12: m0, m1, m10, m11, m2 and 7 more"
    )


SUFFIXES = ": --gt-suffix and --pred-suffix name the ends that are no part of what is paired"


@pytest.mark.parametrize(
    ("true", "found", "hint"),
    [
        (("a_gt", "b_gt"), ("a_pred", "b_pred"), ": is --gt-suffix gt --pred-suffix pred meant?"),
        (("a_labelIds", "b_labelIds"), ("a", "b"), ": is --gt-suffix _labelIds meant?"),
        (("a", "b"), ("a-out", "b-out"), ": is --pred-suffix -out meant?"),
        (("a_gt", "b"), ("a_pred", "b_pred"), SUFFIXES),
        (("ulm/a_gt", "ulm/a_color"), ("a_pred",), SUFFIXES),
        (("1",), ("2",), ""),
        (("a",), (), ""),
    ],
)
def test_hints_at_suffixes(true: tuple[str, ...], found: tuple[str, ...], hint: str) -> None:
    assert hint_at_names(Pairing([], list(true), list(found), 0), False) == hint


def test_two_files_are_a_pair(tmp_path: Path) -> None:
    sides(tmp_path, "gt/a.png", "pred/b.npy")
    files = [Side(str(tmp_path / name), "", f"--{name[:2]}") for name in ("gt/a.png", "pred/b.npy")]
    assert [(pair.name, pair.prediction[-5:]) for pair in pair_files(*files).pairs] == [("a", "b.npy")]
    with pytest.raises(InputError, match="--fo must be a file, as --pr is, but is a folder"):
        pair_files(Side(str(tmp_path), "", "--fo"), files[1])


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    both = sides(tmp_path, "gt/a.png", "pred/a.png", "far/b.png")
    for side in ("gt", "pred"):
        (tmp_path / side / "far").symlink_to(tmp_path / "far")
        (tmp_path / side / "up").symlink_to(tmp_path / side)
    assert names(pair_files(*both)) == ["a", "far/b"]


@pytest.mark.parametrize(
    ("files", "suffix", "said"),
    [
        ((), "", "--gt must have label maps (*.png, *.npy, *.npz) but {}/gt has none of 0 files"),
        (("gt/a.jpg",), "", "--gt must have label maps (*.png, *.npy, *.npz) but {}/gt has none of 1 files"),
        (("gt/a.png",), "_x", "--gt must have label maps (*_x.png, *_x.npy, *_x.npz) but {}/gt has none of 1 files"),
        (("gt/a.png",), "", "--pred must be a folder but {}/pred does not exist"),
    ],
)
def test_folders_without_label_maps(files: tuple[str, ...], suffix: str, said: str, tmp_path: Path) -> None:
    both = sides(tmp_path, *files, gt=suffix)
    if "exist" in said:
        both = both[0], Side(str(tmp_path / "none"), "", "--pred")
        said = said.replace("/pred", "/none")
    with pytest.raises(InputError, match=f"^{re.escape(said.replace('{}', str(tmp_path)))}$"):
        pair_files(*both)
