"""What becomes of a vocabulary after training: audited, converted, extended and pruned tokenizers."""
