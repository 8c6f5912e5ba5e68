"""The command line: parsing and showing."""
