"""Greedy cosine similarities of token embeddings."""
