"""Names of other people's packages: a package for each, which translates names, arguments and results.

It holds no mathematics. The numbers come from the rooms below, and users import the names from the front doors:
``valor_gpu.functional`` and ``valor_gpu.classification`` have those of torchmetrics.
"""
