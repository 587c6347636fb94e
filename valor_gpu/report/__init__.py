"""Results as text, JSON and pictures. Importing it loads no torch."""
