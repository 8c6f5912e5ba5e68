"""What tokenizers make of a text: metrics, n-gram models, comparisons, baselines."""
