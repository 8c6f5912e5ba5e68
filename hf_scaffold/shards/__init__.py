"""A corpus as files of token ids."""
