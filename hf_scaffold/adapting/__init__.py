"""A model of transformers that goes on with another tokenizer."""
