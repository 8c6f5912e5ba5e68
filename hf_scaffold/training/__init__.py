"""From counts to merges: the trainer, and the artifact that it makes."""
