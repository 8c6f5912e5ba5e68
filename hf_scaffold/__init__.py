"""Train Scaffold-BPE tokenizers and use them in transformers, datasets and the Hub."""
