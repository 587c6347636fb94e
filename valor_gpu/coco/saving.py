"""``save_state`` of evaluations. No torch."""

from __future__ import annotations

import os
from typing import Any


class SavesState:
    """Part of evaluations: writes state files."""

    def save_state(self: Any, path: str | os.PathLike[str]) -> None:
        """Writes a state file of the result, which :func:`valor_gpu.stats.compare` takes.

        It holds the records, not boxes, masks or pictures: 10 MB for 500,000 detections.

        Args:
            path: of the file, which is written in one step.

        Raises:
            InputError: there is no result yet, or ``accumulate`` followed ``evalImgs``, which somebody looked at
                before.
            OSError: the file cannot be written; an older one stays as it is.
        """
        from valor_gpu.state_file import write_state

        write_state(path, self._state_file(self.result()))
