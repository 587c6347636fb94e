"""Names of torchmetrics: its arguments by task, its functions, its module paths and what its wrappers may hold.

``task_names`` is the table of classes and functions of classification, of which ``task_classes`` and
``functional.task_functions`` make them. ``sources`` reads the names of the torchmetrics that is installed and ``paths``
serves its module paths below ``valor_gpu``. Front doors are ``valor_gpu``, ``valor_gpu.classification`` and
``valor_gpu.functional``. The rest is where it belongs to a class: ``valor_gpu.metric_type`` lets ``valor_gpu.Metric``
stand for ``torchmetrics.Metric``.
"""
