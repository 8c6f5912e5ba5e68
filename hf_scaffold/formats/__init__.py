"""Files that other programs keep a tokenizer in: SentencePiece's, tiktoken's, GGUF."""
