"""Attacks: files, texts and calls made to hurt the package. `python -m attack` goes on as long as asked."""
