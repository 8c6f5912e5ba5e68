"""Counting and tokenizing on the engines that clusters run; each is imported by its own module alone."""
