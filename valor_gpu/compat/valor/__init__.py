"""Names of Valor: the objects, functions and dicts of valor_core, of Valor's server and of valor-lite.

Programs import them from :mod:`valor_gpu.valor`. The mathematics is there too.
"""
