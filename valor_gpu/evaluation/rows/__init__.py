"""Data in: files, lists and frames as rows; names of fields, mappings and keys."""
