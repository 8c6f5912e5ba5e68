"""What tokenizers make of a text: metrics, comparisons, baselines."""
