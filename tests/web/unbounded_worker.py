"""A process of trials whose templates have no limits of their own: those of the process must hold."""

from __future__ import annotations

import sys

from valor_gpu.evaluation.prompts import _budget, _formats
from valor_gpu.web.library import trial_worker

if __name__ == "__main__":
    _budget.LONGEST_OUTPUT, _budget.MOST_STEPS, _budget.MOST_SECONDS = 10**15, 10**15, 1e9
    _formats._DIGITS = 99
    trial_worker.MOST_SECONDS = int(sys.argv[1])  # of processor time
    sys.exit(trial_worker.main())
