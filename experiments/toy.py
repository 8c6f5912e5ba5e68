"""All experiments at toy size, on a novel and on ciphers of it, and the tables: a minute or two of a core.

    python experiments/toy.py build/experiments/toy

The figures mean nothing; it shows that everything runs.
"""

import codecs
import re
import sys
from importlib.resources import files
from pathlib import Path

import lm
import mt
import tables

HEADER = '{mark}.\n\t<language id="{name}">\n\t<seg id="b.GEN.1.1" type="verse">\n'
CIPHERS = {
    "plain": str,
    "rotated": lambda verse: codecs.encode(verse, "rot13"),
    "upper": str.upper,
    "backward": lambda verse: verse[::-1],
}


def bibles(novel: str) -> str:
    """The sentences of a novel as verses, in several ciphers, in the shape that mt.py reads."""
    verses = re.split(r"(?<=[.!?])\s+", " ".join(novel.split()))[: mt.ENOUGH + 2 * mt.BLOCK]
    parts = []
    for name, cipher in CIPHERS.items():
        parts += [HEADER.format(mark=mt.MARK, name=name), *(cipher(verse) + "\n" for verse in verses)]
    return "".join(parts)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    novel = (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")
    novels, translations = folder / "novel.txt", folder / "bibles.txt"
    novels.write_text(novel, encoding="utf-8")
    translations.write_text(bibles(novel), encoding="utf-8")
    logs = [folder / "lm.jsonl", folder / "mt.jsonl"]
    lm.main([novels], "toy", vocab_size=[600, 1_000], seeds=2, folder=folder, log=logs[0])
    mt.main(translations, "toy", vocab_size=[600], seeds=2, folder=folder, log=logs[1])
    tables.main(logs, figure=folder / "models.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
