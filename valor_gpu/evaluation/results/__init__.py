"""What is made of the stored scores: summaries, comparisons, gates and files."""
