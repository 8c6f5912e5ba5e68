"""What becomes of a vocabulary after training: converted, extended and pruned tokenizers."""
