"""User data to tensors and columns: every format ends here."""
