"""``valor-gpu verify``: recomputes the numbers of a file from its inputs, and names the first difference."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from valor_gpu._version import __version__
from valor_gpu.cli.given import CHOICES, command_line
from valor_gpu.cli.options import STANDARD_INPUT, device, input_path
from valor_gpu.errors import InputError

_OK, _DIFFERS = 0, 1
_FILES: dict[str, dict[str, str]] = {
    "detect": {"ground_truths": "gt", "detections": "dt"},
    "classify": {"data": "data"},
    "segment": {"ground_truths": "gt", "predictions": "pred"},
    "panoptic": {"ground_truths": "gt", "predictions": "pred"},
    "text": {"predictions": "predictions", "references": "references"},
    "retrieval": {"qrels": "qrels", "run": "runs"},
}
"""By command its inputs, as documents call them, and their options."""
_SEVERAL = {"references": "--references", "run": "--run"}
"""Inputs of which there may be several, and their options: the second one is called ``references_2``."""
_OPTIONS = ("gt", "dt", "gt_dir", "pred", "pred_dir", "data", "predictions", "references", "qrels", "runs")


def add_options(verify: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = verify.add_argument
    add("result", type=input_path, metavar="FILE",
        help="what --json of detect, classify, segment, panoptic, text or retrieval wrote; or Result.save of a result"
        " of COCOeval or LVISEval")  # fmt: skip
    for name, of in (
        ("gt", "detect, segment and panoptic: ground truth"),
        ("dt", "detect: detections"),
        ("gt-dir", "panoptic: folder of the PNG of --gt"),
        ("pred", "segment and panoptic: predictions"),
        ("pred-dir", "panoptic: folder of the PNG of --pred"),
        ("data", "classify: table"),
        ("predictions", "text: predicted texts"),
        ("qrels", "retrieval: judgements"),
    ):
        add(f"--{name}", type=input_path, metavar="PATH", help=f"of {of}; default: the path that FILE says")
    add("--references", type=input_path, nargs="+", metavar="PATH",
        help="of text: reference texts; default: the paths that FILE says")  # fmt: skip
    add("--run", type=input_path, nargs="+", metavar="PATH", dest="runs",
        help="of retrieval: ranked documents; default: the paths that FILE says")  # fmt: skip
    add("--device", type=device, help="where to count: cpu, cuda or cuda:N; default: as FILE says")
    verify.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from valor_gpu.exports.files import FORMAT
    from valor_gpu.report.verification import count_numbers, first_difference

    told = _document(options.result)
    saved = told.get("format") == FORMAT
    command = "detect" if saved else _command(told, options.result)
    _check_options(options, command)
    _note_version(options, told)
    difference = "" if saved else _other_file(options, command, told)
    found: Mapping[str, Any] = {}
    if not difference:
        told, found, difference = _saved_again(options) if saved else (told, *_again(options, command, told))
    difference = difference or first_difference(found, told)
    if difference:
        print(f"{options.result} differs: {difference}")
        return _DIFFERS
    count = count_numbers(told)
    numbers = "its number" if count == 1 else f"all of its {count:,} numbers"
    print(f"{options.result} is right: {numbers} came out again, bit for bit")
    return _OK


def _document(path: str) -> dict[str, Any]:
    """The object of a file."""
    if not os.path.isfile(path):
        got = (
            "is a folder" if os.path.isdir(path) else "is no regular file" if os.path.exists(path) else "does not exist"
        )
        raise InputError(f"FILE must be a file that --json or Result.save wrote but {path} {got}")
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (ValueError, RecursionError) as error:
        need = "FILE must be a file that --json or Result.save wrote"
        raise InputError(f"{need} but {path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"FILE must be a file that --json or Result.save wrote but {path} holds no object")
    return found


def _command(told: Mapping[str, Any], path: str) -> str:
    """The command that wrote a document."""
    from valor_gpu.report.document import SCHEMA_VERSION

    command = told.get("command")
    if command not in CHOICES:
        raise InputError(f"FILE must be of {', '.join(CHOICES)} or of Result.save but {path} has command {command!r}")
    if (version := told.get("schema_version")) != SCHEMA_VERSION:
        raise InputError(
            f"FILE must have schema_version {SCHEMA_VERSION} but {path} has {version!r}: verify it with the version of"
            " valor_gpu that wrote it"
        )
    for name, kind in (("options", Mapping), ("inputs", Mapping), ("values", Mapping)):
        if not isinstance(told.get(name), kind):
            raise InputError(
                f"FILE must have {name}, which tell how to make the numbers again, but {path} has none: write it anew"
                " with --json"
            )
    for name, input_ in told["inputs"].items():
        if not isinstance(input_, Mapping) or not isinstance(input_.get("path"), str):
            raise InputError(f"FILE must have the path of each input but {path} has none of {name}: write it anew")
    return str(command)


def _check_options(options: argparse.Namespace, command: str) -> None:
    """Raises for a path that the command has no use for."""
    known = {*_FILES[command].values(), *(("gt_dir", "pred_dir") if command == "panoptic" else ())}
    for name in _OPTIONS:
        if getattr(options, name) is not None and name not in known:
            needed = ", ".join(map(_flag, sorted(known)))
            raise InputError(f"{_flag(name)} must not be given: the result is of {command}, which takes {needed}")


def _flag(name: str) -> str:
    """The option that fills a name of the namespace."""
    return "--run" if name == "runs" else f"--{name.replace('_', '-')}"


def _note_version(options: argparse.Namespace, told: Mapping[str, Any]) -> None:
    signature = told.get("signature")
    version = signature.get("version") if isinstance(signature, Mapping) else None
    if version != __version__:
        text = f"note: {options.result} was written by version {version}; this is {__version__}"
        print(f"valor-gpu {options.command}: {text}", file=sys.stderr)


def _inputs(options: argparse.Namespace, command: str, told: Mapping[str, Any]) -> dict[str, str]:
    """Path of each input: that of the option, else the one that the document says."""
    found: dict[str, str] = {}
    for name, input_ in told["inputs"].items():
        base = next((each for each in _SEVERAL if name.startswith(f"{each}_")), name)
        given = getattr(options, _FILES[command][base]) if base in _FILES[command] else None
        if isinstance(given, list):
            place = int(name.partition("_")[2] or 1) - 1
            given = given[place] if place < len(given) else None
        found[name] = str(input_["path"]) if given is None else given
        if found[name] == STANDARD_INPUT:
            raise InputError(f"{_flag(_FILES[command][base])} must be given: the result is of standard input")
    return found


def _other_file(options: argparse.Namespace, command: str, told: Mapping[str, Any]) -> str:
    """The first input file that is not the one that the numbers are of; empty for none, and for folders."""
    from valor_gpu.inputs.files import sha256_of

    for name, path in _inputs(options, command, told).items():
        expected = told["inputs"][name].get("sha256")
        if expected is None or not os.path.isfile(path):
            continue
        if (digest := sha256_of(path)[1]) != expected:
            return f"{path} has the SHA-256 {digest} but the {name.replace('_', ' ')} of the result had {expected}"
    return ""


def _again(options: argparse.Namespace, command: str, told: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The document that the command writes now, and what differs in its folders."""
    from valor_gpu.cli import _parsed

    argv = [command, *_paths(options, command, told), *command_line(command, told["options"]), "--quiet"]
    if command in ("detect", "classify"):
        argv += [f"--device={options.device or told.get('device', 'cpu')}"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "again.json")
        nested = _parsed([*argv, f"--json={path}"])
        nested.run(nested)
        found = _document(path)
    for name in ("inputs", "folders"):
        for side, here in found.get(name, {}).items():
            there = told.get(name, {}).get(side, {})
            if here.get("sha256") != there.get("sha256") and None not in (here.get("sha256"), there.get("sha256")):
                text = f"the files of {here['path']} have together the SHA-256 {here['sha256']} but the"
                return found, f"{text} {side.replace('_', ' ')} of the result had {there['sha256']}"
    return found, _other_data(found.get("provenance"), told.get("provenance"))


def _other_data(here: Any, there: Any) -> str:
    """Which hash of the data differs; empty where none does, or the file has none of this kind."""
    if not isinstance(here, Mapping) or not isinstance(there, Mapping) or here.get("hashed") != there.get("hashed"):
        return ""
    for name in ("ground_truth", "predictions"):
        if there.get(name) not in (None, here.get(name)):
            return f"the hash of the {name.replace('_', ' ')} is {here.get(name)} but the file says {there[name]}"
    return ""


def _paths(options: argparse.Namespace, command: str, told: Mapping[str, Any]) -> list[str]:
    """The inputs as arguments."""
    paths, argv = _inputs(options, command, told), list[str]()
    for name, flag in _FILES[command].items():
        if name in paths and name not in _SEVERAL:
            argv.append(f"--{flag}={paths[name]}")
    for several, flag in _SEVERAL.items():
        found = [path for name, path in paths.items() if name == several or name.startswith(f"{several}_")]
        if found and found != [paths.get("predictions")]:
            argv += [flag, *found]
    folders = told.get("folders", {}) if command == "panoptic" else {}
    for side, flag in (("ground_truths", "gt_dir"), ("predictions", "pred_dir")):
        if side in folders:
            path = getattr(options, flag) or folders[side]["path"]
            argv.append(f"--{flag.replace('_', '-')}={path}")
    return argv


def _saved_again(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What a file of ``Result.save`` says, what the inputs give now, and which of these is another."""
    from valor_gpu.report.rebuilt import rebuilt
    from valor_gpu.result import Result

    told = Result.load(options.result)
    for name in ("gt", "dt"):
        if getattr(options, name) is None:
            raise InputError(f"--{name} must be given: {options.result} is of Result.save, which keeps no paths")
    found = rebuilt(told, options.gt, options.dt, options.device or "cpu")
    for name, flag in (("ground_truth", "gt"), ("predictions", "dt")):
        here, there = found.provenance[name], told.provenance.get(name)
        if there is not None and here != there:
            text = f"the hash of the {name.replace('_', ' ')} in {getattr(options, flag)} is {here}"
            return told.to_dict(), found.to_dict(), f"{text} but that of the result was {there}"
    return told.to_dict(), found.to_dict(), ""
