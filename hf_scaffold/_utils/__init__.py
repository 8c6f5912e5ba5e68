"""What every package may use, and what knows none of them: arguments, files, JSON, processors."""
