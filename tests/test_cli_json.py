"""``--json``: where it is written, and what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from valor_gpu import __version__
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.coco.annotation_sets import category_names
from valor_gpu.report import document, files

ROOT = Path(__file__).parent.parent
DATA = ROOT / "examples/data"
GT, DT = DATA / "instances_val2014_100.json", DATA / "instances_val2014_fakebbox100_results.json"
DIGITS = DATA / "digits_predictions.csv"
DETECT = ["detect", "--gt", str(GT), "--dt", str(DT)]
CLASSIFY = ["classify", "--data", str(DIGITS), "--target", "digit", "--scores-prefix", "p_"]
PANOPTIC = ["panoptic", "--gt", str(DATA / "panoptic_examples.json")]
PANOPTIC += ["--pred", str(DATA / "panoptic_examples_predictions.json")]
COMMAND = [sys.executable, "-W", "ignore", "-m", "valor_gpu"]


def strict(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


@pytest.mark.parametrize("arguments", [DETECT, CLASSIFY, PANOPTIC])
@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_dash_prints_the_json_alone(
    arguments: list[str], quiet: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--per-class", "--json", "-", *quiet]) == OK
    shown = capsys.readouterr()
    assert strict(shown.out)["command"] == arguments[0]
    assert shown.err == "" and list(tmp_path.iterdir()) == []


def test_standard_output_by_any_name_is_printed_to(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    for name in ("-", "/dev/stdout", "/dev/fd/1", str(out)):
        with out.open("wb") as stream:
            subprocess.run([*COMMAND, *DETECT, "--json", name], stdout=stream, check=True)
        assert strict(out.read_text())["counts"]["images"] == 100, name
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_pipes_and_descriptors_are_written_through(tmp_path: Path) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    assert main([*DETECT, "--quiet", "--json", str(fifo)]) == OK
    reader.join(60)
    assert strict(read[0])["counts"]["images"] == 100
    assert stat.S_ISFIFO(fifo.stat().st_mode) and [path.name for path in tmp_path.iterdir()] == ["fifo"]


def test_a_file_behind_a_descriptor_is_not_replaced(tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w+") as kept:
        assert main([*DETECT, "--quiet", "--json", f"/dev/fd/{kept.fileno()}"]) == OK
        assert strict(kept.read())["counts"]["images"] == 100


def test_a_terminal_is_written_through() -> None:
    controller, terminal = os.openpty()
    try:
        name = os.ttyname(terminal)
        files.write_file(Path(name), b"{}\n")
        assert os.read(controller, 100) == b"{}\r\n"
        assert stat.S_ISCHR(os.stat(name).st_mode)
    finally:
        os.close(controller)
        os.close(terminal)


def device(folder: Path, name: str, minor: int) -> Path:
    """A memory device; for root, who could replace the real one, a copy."""
    if os.geteuid():
        return Path("/dev") / name
    copy = folder / name
    try:
        os.mknod(copy, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        copy.open("wb").close()
    except PermissionError:
        pytest.skip("devices cannot be made here")
    return copy


def test_devices_stay_devices(tmp_path: Path) -> None:
    null, link = device(tmp_path, "null", 3), tmp_path / "link"
    link.symlink_to(null)
    before = null.stat()
    for path in (null, link):
        assert main([*DETECT, "--quiet", "--json", str(path)]) == OK
    after = null.stat()
    assert stat.S_ISCHR(after.st_mode) and after.st_rdev == before.st_rdev
    assert link.is_symlink()


def test_links_are_followed_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far/real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("far/real.json")
    before = real.stat()
    assert main([*DETECT, "--quiet", "--json", str(link)]) == OK
    assert link.is_symlink() and strict(real.read_text())["counts"]["images"] == 100
    after = real.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    real.unlink()
    assert main([*DETECT, "--quiet", "--json", str(link)]) == OK  # a link to a file to come
    assert link.is_symlink() and real.is_file()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "link.json", "real.json"]


def test_a_link_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert main([*DETECT, "--quiet", "--json", str(link)]) == FAILURE
    assert link.is_symlink() and real.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_full_and_closed_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DETECT, "--quiet", "--json", str(device(tmp_path, "full", 7))]) == FAILURE
    assert "No space left on device" in capsys.readouterr().err
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *DETECT, "--quiet", "--json", "-"]
    closed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert closed.returncode == BAD_INPUT
    assert closed.stderr == "valor-gpu detect: error: standard output must be open but is closed\n"


def test_a_link_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert main([*DETECT, "--json", str(loop)]) == BAD_INPUT
    assert "--json must be a file but" in capsys.readouterr().err and loop.is_symlink()


def test_a_device_without_permission(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: mode == os.R_OK)
    assert main([*DETECT, "--json", "/dev/null"]) == BAD_INPUT
    assert "--json must be writable but /dev/null is not" in capsys.readouterr().err


def test_versions_and_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DETECT, "--json", "-"]) == OK
    text = capsys.readouterr().out
    written = strict(text)
    assert written["schema_version"] == document.SCHEMA_VERSION
    libraries = {"torch": torch.__version__, "numpy": np.__version__}
    assert written["versions"] == {"valor_gpu": __version__, "python": platform.python_version(), **libraries}
    for name, path in (("ground_truths", GT), ("detections", DT)):
        content = path.read_bytes()
        expected = {"path": str(path), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        assert written["inputs"][name] == expected
    assert main([*DETECT, "--json", "-"]) == OK
    assert capsys.readouterr().out == text, "equal inputs give equal bytes"


def test_an_input_that_goes_away_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> tuple[int, str]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(document, "sha256_of", gone)
    assert main([*DETECT, "--json", str(tmp_path / "a.json")]) == FAILURE
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_hashed_without_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "sha256_of", pytest.fail)
    assert main([*DETECT, "--quiet"]) == OK


def test_class_names_are_never_the_same() -> None:
    named = [{"id": 3, "name": "dog"}, {"id": 4, "name": "dog"}, {"id": 5, "name": "dog (3)"}, {"id": 6, "name": 4}]
    assert category_names(named) == ["dog (3) (3)", "dog (4)", "dog (3) (5)", "4"]


STARS = {"categories", "reasons", "evaluators", "failed", "provenance.kernels", "intervals"}
"""Keys whose own keys are names from the data or the command line."""


OPTIONS = "options"
"""Key of the options that were given, which docs/cli.md explains."""


def keys_of(value: Any, stars: set[str], path: str = "") -> set[str]:
    """Dotted keys of nested objects; names of classes and the keys of ``stars`` are ``*``."""
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, part in value.items():
        name = "*" if path.endswith("_per_class") or path in stars else key
        whole = f"{path}.{name}".lstrip(".")
        found |= {whole} | (set() if whole == OPTIONS else keys_of(part, stars, whole))
    return found


def test_every_key_is_explained_and_every_explained_key_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "a.csv"
    table.write_text("t,p\nx,x\ny,x\n")
    texts = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in texts:
        path.write_text("a\nb\n")
    page = (ROOT / "docs/json.md").read_text()
    maps = tmp_path / "maps"
    maps.mkdir()
    for name in ("a_gt", "a_pred"):
        np.save(maps / name, np.eye(3, dtype=np.uint8))
    scenes = {"lvis": random_lvis(1), "crowdpose": random_keypoints(2, 14, crowdpose=True)}
    protocols = []
    for protocol, objects in scenes.items():
        paths = [tmp_path / f"{protocol}_{side}.json" for side in ("gt", "dt")]
        for path, value in zip(paths, objects):
            path.write_text(json.dumps(value))
        protocols.append(["detect", "--gt", str(paths[0]), "--dt", str(paths[1]), "--protocol", protocol])
    corrected = ["--convention", "corrected"]
    protocols += [[*protocols[0], "--iou-type", "segm"], [*protocols[1], *corrected]]
    for heading, commands in {
        "detect": [DETECT, [*DETECT, *corrected], *protocols],
        "classify": [CLASSIFY, ["classify", "--data", str(table), "--target", "t", "--pred", "p"]],
        "segment": [["segment", "--gt", str(maps), "--pred", str(maps), "--num-classes", "3", "--gt-suffix", "_gt",
                     "--pred-suffix", "_pred"]],
        "panoptic": [PANOPTIC],
        "text": [["text", "--prediction", "a", "--reference", "", "--metrics", "word_error_rate"],
                 ["text", "--predictions", str(texts[0]), "--references", *map(str, texts[1:]), "--metrics", "rouge1"]],
    }.items():  # fmt: skip
        written: set[str] = set()
        for command in commands:
            assert main([*command, "--json", "-"]) == OK
            written |= keys_of(strict(capsys.readouterr().out), STARS | ({"values"} if heading == "text" else set()))
        parts = {part.split("\n", 1)[0]: part for part in page.split("\n## ")}
        explained = set()
        for title in ("Every command", f"`{heading}`"):
            explained |= set(re.findall(r"^\| `([^`]+)`", parts[title], re.MULTILINE))
        assert written == explained


def test_every_key_of_intervals_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    texts = [tmp_path / f"{number}.txt" for number in range(2)]
    texts[0].write_text("a b\nb\nc d\n")
    texts[1].write_text("a\nb\nc c\n")
    command = ["text", "--predictions", str(texts[0]), "--references", str(texts[1]), "--metrics", "f1_score"]
    assert main([*command, "--json", "-", "--intervals", "20"]) == OK
    written = strict(capsys.readouterr().out)
    own = {name: written.pop(name) for name in ("intervals", "interval_choices")}
    assert main([*command, "--json", "-"]) == OK
    plain = strict(capsys.readouterr().out)
    assert written["options"] == {**plain["options"], "intervals": "20"}
    assert plain == {**written, "options": plain["options"]}, "intervals add keys and change no other"
    parts = {part.split("\n", 1)[0]: part for part in (ROOT / "docs/json.md").read_text().split("\n## ")}
    explained = set(re.findall(r"^\| `([^`]+)`", parts["With `--intervals`"], re.MULTILINE))
    assert keys_of(own, STARS) == explained
