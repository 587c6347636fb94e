"""Metrics that a judge decides, with their prompts, and the one reader of its replies. No torch.

- ``prompts/*.md``, ``prompts.py``: what is asked; ``reading.py``: schemas of replies, and values of them.
- ``text_base.py``, ``text_metrics.py``, ``evaluate.py``: Valor's metrics of texts; ``rules.py`` has their rows and
  presets. Users have them of ``valor_gpu.text.judged``.
- ``row_base.py``: metrics of rows of fields and of conversations, in ``ratings.py``, ``preference.py``, ``guard.py``
  and ``valor.py``; ``table.py`` lists them. Users have them of ``valor_gpu.evaluation.judged``.
"""
