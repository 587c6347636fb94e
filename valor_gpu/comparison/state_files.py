"""State files as sides of a comparison: their numbers are computed again and must be those that were saved."""

from __future__ import annotations

import importlib
import os

from valor_gpu._frozen import frozen
from valor_gpu._version import __version__
from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.state_file import StateFile, document_of, first_difference, parse_state, read_state
from valor_gpu.store.runs import Run
from valor_gpu.store.states import state_of

_READERS = {
    "metric": "valor_gpu.saved_metric",
    "coco": "valor_gpu.coco.saved_state",
    "lvis": "valor_gpu.coco.saved_state",
    "label_maps": "valor_gpu.segmentation.folder_states",
    "panoptic": "valor_gpu.segmentation.folder_states",
    "predictions": "valor_gpu.report.classify_state",
    "texts": "valor_gpu.report.text_state",
    "retrieval": "valor_gpu.report.retrieval_state",
}
"""Modules whose ``result_of`` makes the result of a state file again, by the kind of the state; those of commands are
above this package, so all are imported by name."""


@frozen
class LoadedState:
    """The result of a state file.

    Attributes:
        result: as it was saved; it knows its state.
        notes: what a reader must know, such as another version of the package.
    """

    result: Result
    notes: tuple[str, ...] = ()


def load_state_file(path: str | os.PathLike[str]) -> LoadedState:
    """Reads a file of ``save_state`` or ``--save-state`` and computes its numbers again.

    Args:
        path: of the file. Nothing in it is executed.

    Raises:
        InputError: the file is no state file, is damaged, has a newer format, or holds numbers that are not those of
            its state although this version of the package wrote them; it names the first.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile, torch
        >>> from valor_gpu.classification import Accuracy
        >>> metric = Accuracy(num_classes=2, average="micro", keep_rows=True)
        >>> metric.update(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metric.save_state(f"{folder}/old.state")
        ...     loaded = load_state_file(f"{folder}/old.state")
        >>> round(loaded.result.values["Accuracy"], 4), loaded.notes
        (0.6667, ())
    """
    return loaded_state(read_state(path), os.fspath(path))


def load_run(run: Run) -> LoadedState:
    """Reads the state file of a run of a store and computes its numbers again.

    Args:
        run: of a result of detection, segmentation or classification.

    Raises:
        InputError: the run has no state file, or one that :func:`load_state_file` refuses.
    """
    name = f"run {run.name!r} ({run.id})"
    content = state_of(run)
    if content is None:
        raise InputError(
            f"{name} must know what its numbers came from but has no state file: save it again with"
            " --store, or with state= of Store.save"
        )
    return loaded_state(parse_state(content, name), name)


def loaded_state(file: StateFile, name: str) -> LoadedState:
    """Returns the result of a state file that was read.

    Args:
        file: what it holds.
        name: of the file, for messages.

    Raises:
        InputError: see :func:`load_state_file`.
    """
    if file.kind not in _READERS:
        raise InputError(
            f"{name} must hold a state that valor_gpu {__version__} knows but holds one of kind {file.kind!r}, written"
            f" by {file.version}: install that version or a newer one"
        )
    try:
        made: Result = importlib.import_module(_READERS[file.kind]).result_of(file)
        saved = file.result(vars(made)["_state"], vars(made)["_analysis"], made.plotter)
        vars(saved).update({key: part for key, part in vars(made).items() if key == "_parts"})  # queries of slices
        difference = first_difference(file.document, document_of(made))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise InputError(f"{name} must hold a state of kind {file.kind} but has another form: {error}") from None
    if not difference:
        return LoadedState(saved, _version_notes(file, name))
    device = saved.provenance.get("device", "cpu")
    if file.version == __version__ and device == "cpu":
        raise InputError(f"{name} must hold the numbers of its state but {difference}: save it again")
    return LoadedState(saved, (*_version_notes(file, name), f"{name}: {difference}, saved on {device}"))


def _version_notes(file: StateFile, name: str) -> tuple[str, ...]:
    if file.version == __version__:
        return ()
    return (f"{name} was written by valor_gpu {file.version}, this is {__version__}",)
