"""A tokenizer as a file of another program, with the ids that it has here, or told how many differ."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import AddedToken, Tokenizer

from hf_scaffold._utils.arguments import flag, knows_its_arguments, warn
from hf_scaffold._utils.files import saving, write_files
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.formats import gguf, sentencepiece, tiktoken
from hf_scaffold.lifecycle.models import as_fast_or_scaffold, counts_for
from hf_scaffold.lifecycle.plain_engines import Engine, Source, every_rule, fault_of_rules, fault_of_tokens
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE
from hf_scaffold.text.corpus import Corpus


@dataclass(frozen=True)
class Export:
    """A tokenizer as files of another program.

    Args:
        paths: The files.
        exact: Whether the program gives the ids that the tokenizer does, for any text without special tokens.
        agreement: Share of pre-tokens, weighted by counts, to which it gives these ids; None: not measured.
            It can be 1 without `exact`: texts that begin with a space may get one more, of which a warning
            says so, and a corpus may lack what differs.
    """

    paths: tuple[Path, ...]
    exact: bool
    agreement: float | None


@knows_its_arguments
def export(
    tokenizer: Any,
    path: str | os.PathLike[str],
    format: str,
    *,
    raw: bool = False,
    corpus: Corpus | PreTokenCounts | None = None,
    text_field: str = "text",
    num_workers: int | None = None,
) -> Export:
    """Write a tokenizer as another program's file. The tokens keep their ids.

    The same tokenizer gives the same bytes. What is there is replaced once the new files are complete.

    Args:
        tokenizer: A BPE tokenizer, as for `extend`.
        path: The file; of "raw", the folder.
        format: What to write:

            - "sentencepiece": a BPE model, for tokenizers that write spaces as "▁". Scaffold tokens become
              unused pieces, which SentencePiece demolishes, so a Scaffold-BPE gets its ids.
            - "tiktoken": a file of ranks, with pattern and special tokens in a `.json` file beside it.
            - "gguf": a vocabulary for llama.cpp.
            - "raw": a tokenizer.json and tokenizer_config.json of the stock class: no code of ours is needed.
        raw: For "tiktoken" and "gguf", which can't demolish: write a Scaffold-BPE all the same, and any other
            tokenizer whose ids the program would change. Without it, these are refused.
        corpus: Text as for `count`, or counts of it, to measure agreement on. None: what training measured,
            where that is of the same model.
        text_field, num_workers: As for `count`.
    Raises:
        ConfigurationError: the program can't split text so, or would give other ids.
        OSError: the file or folder can't be written.
    Example:
        >>> import tempfile
        >>> import hf_scaffold as hs
        >>> tokenizer = hs.train_tokenizer(["pug hugs", "hug pug"], vocab_size=259, scaffold=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export = hs.export(tokenizer, Path(folder, "pugs.tiktoken"), "tiktoken")
        >>> [path.name for path in export.paths], export.exact
        (['pugs.tiktoken', 'pugs.tiktoken.json'], True)
    """
    writers: dict[str, Callable[[Source, Path], _Written]] = {
        "sentencepiece": _write_sentencepiece,
        "tiktoken": _write_tiktoken,
        "gguf": _write_gguf,
        "raw": _write_raw,
    }
    if format not in writers:
        raise ConfigurationError(f"unknown format {format!r}; choose {', '.join(writers)}")
    source = Source(as_fast_or_scaffold(tokenizer), flag("raw", raw))
    counts = None if corpus is None else counts_for(source.model, corpus, text_field, num_workers)
    written = writers[format](source, Path(path))
    exact = written.engine is None and written.keeps_starts
    return Export(tuple(written.paths), exact, source.agreement(written.engine, counts))


class _Written(NamedTuple):
    """What a writer made.

    Args:
        paths: The files.
        engine: What the program runs in place of the tokenizer's own model; None: what gives the same ids.
        keeps_starts: Whether it puts a space before the same texts as the tokenizer.
    """

    paths: list[Path]
    engine: Engine | None
    keeps_starts: bool = True


SCAFFOLDS = "it has scaffold tokens, and that program doesn't demolish them"


# ---- tiktoken


def _write_tiktoken(source: Source, path: Path) -> _Written:
    model, ids = source.model, source.ids
    pattern = tiktoken.pattern_for(model.pre_tokenizer)
    if fault := _fault_of_added(source.added.values(), "tiktoken"):
        raise ConfigurationError(fault)
    if missing := [symbol for symbol in SYMBOL_TO_BYTE if symbol not in ids]:
        raise ConfigurationError(
            f"tiktoken needs a token for every byte, and there is none for {len(missing)} of them"
        )
    wholes = {*model.wholes.values()}
    made = [
        token
        for token in ids
        if token not in source.added
        and (token in model.first_rules or token in wholes or model.is_symbol(token))
    ]
    fault = SCAFFOLDS if source.scaffolds else fault_of_rules(model, ids)
    source.require(fault, "tiktoken")
    special = {token: ids[token] for token in source.added}
    ranks = {model.text_of(token) or b"": ids[token] for token in made}
    files = tiktoken.contents(path.name, ranks, pattern, special)
    paths = write_files(path.parent, files)
    engine = Engine(every_rule({token: ids[token] for token in made}), True) if fault else None
    return _Written(paths, engine)


def _fault_of_added(tokens: Iterable[AddedToken], program: str) -> str | None:
    """Why a program that looks for added tokens anywhere in a text finds others than this tokenizer does."""
    for token in tokens:
        if token.lstrip or token.rstrip or token.single_word:
            return f"{program} can't look for {token.content!r} as this tokenizer does"
    return None


# ---- SentencePiece


def _write_sentencepiece(source: Source, path: Path) -> _Written:
    model = source.model
    spacing = sentencepiece.Spacing.of(model.pre_tokenizer)
    unknown = model.settings["unk_token"]
    if unknown is None or not (model.has_bytes or model.settings["fuse_unk"]):
        raise ConfigurationError(
            "SentencePiece needs an unk_token, which stands for all unknown characters in a row (fuse_unk), "
            "or byte_fallback beside it"
        )
    fault = _fault_of_pieces(source, spacing)
    if fault is not None:
        raise ConfigurationError(f"SentencePiece would give other ids: {fault}")
    order = source.order
    pieces = [(token, -float(order.get(token, len(order))), source.type_of(token)) for token in source.tokens]
    pieces += [(token, -float(order[token]), sentencepiece.UNUSED) for token in source.scaffolds]
    written = sentencepiece.content(pieces, spacing, unknown, source.roles, model.has_bytes)
    keeps_starts = _keeps_starts(source, "SentencePiece")
    return _Written(write_files(path.parent, {path.name: written}), None, keeps_starts)


def _fault_of_pieces(source: Source, spacing: sentencepiece.Spacing) -> str | None:
    """Why pieces in place of rules, and nothing cut, would be another thing."""
    model = source.model
    if spacing.prefixed and any(not token.special for token in source.added.values()):
        return "after an added token that isn't special, this tokenizer puts a space"
    if fault := _fault_of_searched(source):
        return fault
    space = sentencepiece.SPACE
    across = {"spaces": lambda token: space in token[1:], "runs": lambda token: space in token.lstrip(space)}
    is_cut = across.get(spacing.cuts, lambda token: False)
    if cut := next(filter(is_cut, model.first_rules), None):
        return f"it never makes {cut!r}, since text is cut before its last space"
    several = source.scaffolds.keys() & {
        token for token, n in zip(*np.unique(model.made or [""], return_counts=True), strict=True) if n > 1
    }
    if several:
        return f"the scaffold token {min(several)!r} has several rules"
    return fault_of_rules(model, source.order)


def _fault_of_searched(source: Source) -> str | None:
    """The same for SentencePiece and llama.cpp, which look for no special tokens in a text."""
    return _fault_of_added((token for token in source.added.values() if not token.special), "it")


def _keeps_starts(source: Source, program: str) -> bool:
    """Whether a program that puts a space before every text does as this tokenizer; warns if not."""
    spares = sentencepiece.spares_first_space(source.model.pre_tokenizer)
    if spares:
        warn(f"{program} puts a space before every text; this tokenizer doesn't where there is one")
    return not spares


# ---- GGUF


def _write_gguf(source: Source, path: Path) -> _Written:
    vocabulary, engine = gguf_vocabulary(source)
    keeps_starts = _keeps_starts(source, "llama.cpp")
    with saving(str(path.parent)) as staging:
        vocabulary.write(Path(staging, path.name))
    return _Written([path], engine, keeps_starts)


def gguf_vocabulary(source: Source) -> tuple[gguf.Vocabulary, Engine | None]:
    """What llama.cpp reads, and the plain BPE that it runs if that gives other ids."""
    make = _gguf_of_bytes if source.model.pre_tokenizer.alphabet == "bytes" else _gguf_of_pieces
    settings, fault, engine = make(source)
    source.require(SCAFFOLDS if source.scaffolds else fault, "llama.cpp")
    tokens = source.tokens
    roles, template = source.roles, source.fast.chat_template
    if source.model.settings["unk_token"] is not None:
        roles["unk"] = source.model.settings["unk_token"]
    vocabulary = gguf.Vocabulary(
        tokens=tokens,
        types=[_gguf_type(source, token) for token in tokens],
        ids={role: source.ids[token] for role, token in roles.items()},
        chat_template=template if isinstance(template, str) else None,
        **settings,
    )
    return vocabulary, engine if source.scaffolds or fault else None


def _gguf_type(source: Source, token: str) -> int:
    is_free = token not in source.added and source.type_of(token) == sentencepiece.CONTROL
    return sentencepiece.UNUSED if is_free else source.type_of(token)


def _gguf_of_bytes(source: Source) -> tuple[dict[str, Any], str | None, Engine]:
    preset = source.model.pre_tokenizer.preset
    name = gguf.PRE_TOKENIZERS.get(preset or "")
    if name is None:
        raise ConfigurationError(
            f"llama.cpp has no name for {source.model.pre_tokenizer}; it has for "
            f"{', '.join(gguf.PRE_TOKENIZERS)}"
        )
    merges = source.public.merges
    settings = {
        "model": "gpt2",
        "pre_tokenizer": name,
        "merges": [" ".join(pair) for pair in merges],
        "adds": _adds_of(source),
    }
    fault = None if source.scaffolds else _fault_of_searched(source) or fault_of_tokens(source.model, merges)
    return settings, fault, Engine(merges, name in gguf.TAKES_WHOLES)


def _gguf_of_pieces(source: Source) -> tuple[dict[str, Any], str | None, Engine]:
    spacing = sentencepiece.Spacing.of(source.model.pre_tokenizer)
    if spacing.charsmap or spacing.removes_extra:
        raise ConfigurationError("llama.cpp doesn't normalize text before pieces of SentencePiece")
    if not source.model.has_bytes or source.model.settings["unk_token"] is None:
        raise ConfigurationError("llama.cpp needs byte_fallback and an unk_token beside it")
    order = source.order
    made = {token: order[token] for token in source.tokens if token in source.model.first_rules}
    settings = {
        "model": "llama",
        "scores": [-float(made.get(token, len(order))) for token in source.tokens],
        "adds": {**_adds_of(source), "space": spacing.prefixed},
    }
    fault = None if source.scaffolds else _fault_of_pieces(source, spacing)
    symbols = {token: len(order) for token in source.tokens if source.model.is_symbol(token)}
    return settings, fault, Engine(every_rule({**made, **symbols}), False)


def _adds_of(source: Source) -> dict[str, bool]:
    """Which tokens the template puts around a text."""
    around = source.fast("")["input_ids"]
    ends = {"bos": around[:1], "eos": around[-1:]}
    return {
        role: ids == [source.ids[source.roles[role]]] for role, ids in ends.items() if role in source.roles
    }


# ---- the stock class


def _write_raw(source: Source, folder: Path) -> _Written:
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import STALE
    from hf_scaffold.tokenizer.like import settings_of

    if (folder / "scaffold.json").exists():
        raise ConfigurationError(f"{folder} has a Scaffold-BPE tokenizer; give a new folder")
    engine = source.public_engine if source.scaffolds else None
    backend = Tokenizer.from_str(source.backend.to_str())
    stock: Any = PreTrainedTokenizerFast
    plain = stock(tokenizer_object=backend, **settings_of(source.fast))
    with saving(str(folder), STALE) as staging:
        plain.save_pretrained(staging)
        config = Path(staging, "tokenizer_config.json")
        content = json.loads(config.read_bytes())
        content |= {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        content.pop("auto_map", None)
        if engine is not None:
            content["raw_agreement"] = source.agreement(engine, None)
        config.write_text(
            json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8"
        )
        names = sorted(file.name for file in Path(staging).iterdir())
    return _Written([folder / name for name in names], engine)
