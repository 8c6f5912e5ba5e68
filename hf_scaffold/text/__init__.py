"""Text: documents from any corpus, and what splits them into pre-tokens."""
