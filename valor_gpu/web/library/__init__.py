"""The library of evaluators and data sets, and trials of evaluators."""
