"""``make peers``: torchmetrics' own tests, with only their imports changed, beside a table of expected differences.

``copies`` writes the tests with other imports into a scratch folder, ``names`` gives these imports what they ask for,
``plugin`` runs in pytest and records outcomes, ``table`` reads tools/peers/expected.txt, ``compare`` holds the outcomes
beside it, and ``__main__`` is the command.
"""

OUTCOMES = "VALOR_GPU_PEERS_OUTCOMES"
"""Variable of the environment with the file of outcomes."""
SAMPLE = "VALOR_GPU_PEERS_SAMPLE"
"""Variable of the environment with the share of tests that are run."""
