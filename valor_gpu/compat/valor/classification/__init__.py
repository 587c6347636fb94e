"""Names of ``valor_core.classification``, and the dicts of its metrics."""
