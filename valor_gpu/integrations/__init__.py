"""Metrics inside trainers: one file for each, which imports its trainer only where one of its classes is used."""
