"""From merges to a tokenizer of transformers: building it, training by example, the Hub."""
