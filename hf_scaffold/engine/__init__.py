"""The exact encoder and decoder: on their own, and behind a tokenizer's calls."""
