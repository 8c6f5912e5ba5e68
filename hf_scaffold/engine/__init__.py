"""The native encoder and decoder behind a tokenizer's calls."""
