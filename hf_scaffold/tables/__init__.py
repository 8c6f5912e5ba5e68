"""Pre-tokens and counts as sorted rows: their files, the parts of a corpus they count, merging on disk."""
