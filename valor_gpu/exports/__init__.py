"""Results in other forms: files, tables, pages. Each takes a result as it is; nothing here computes a number."""
