"""Evaluation of data sets: rows in, scored rows and a summary out. Imports neither torch nor pandas."""
