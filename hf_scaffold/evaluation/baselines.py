"""Tokenizers to compare with: trained on the same counts, or anyone's, from a file or by name.

Those trained here, but for SentencePiece's, see the same pre-tokens in the byte-level alphabet: only the
algorithm differs, and no text has an unknown token.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from hf_scaffold._utils.arguments import LARGEST_ID, knows_its_arguments, shortened, string, strings, whole
from hf_scaffold._utils.child import in_child
from hf_scaffold._utils.process import n_cpus
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, VocabSizeError
from hf_scaffold.evaluation.metrics import EvaluationText
from hf_scaffold.formats import tiktoken
from hf_scaffold.text.byte_level import BYTE_TO_SYMBOL, bytes_to_symbols
from hf_scaffold.text.files import import_extra
from hf_scaffold.tokenizer.loading import load_json, load_pretrained
from hf_scaffold.training.settings import DEFAULT_VOCAB_SIZE
from hf_scaffold.training.trainer import train

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Not "##": nothing in the byte-level alphabet spells this, so every token has one reading.
CONTINUING_PREFIX = "…"
UNKNOWN = "<unk>"
WORD_ENDS = ("\ue000", "\ue001")  # not in the byte-level alphabet

_ALPHABET = sorted(BYTE_TO_SYMBOL.values())
_CHUNK = 1 << 20  # characters of a text that a trainer of `tokenizers` is fed
_SAMPLE = 16_000_000  # bytes of text for SentencePiece's "unigram"; the trainer keeps all substrings of it
_MOMENT = 1 << 20  # bytes of text that others' trainers are done with in a second
_LONGEST_WORD = 1000  # bytes; the default of 100 makes longer ones unknown

# Methods of our own trainer. A report has them if they are asked for.
RIVALS = ("trimmed", "leaf", "residue", "picky")
# The kinds, with the tokens needed besides special ones: the bytes, in WordPiece also inside words; "<unk>".
_SMALLEST = {
    "bpe": 256,
    "wordpiece": 1 + 2 * 256,
    "unigram": 256,
    "sentencepiece-bpe": 1 + 256,
    "sentencepiece-unigram": 1 + 256,
    **dict.fromkeys(RIVALS, 256),
}
BASELINES: tuple[str, ...] = tuple(_SMALLEST)


@knows_its_arguments
def train_baseline(
    kind: str,
    counts: PreTokenCounts,
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    *,
    special_tokens: Sequence[str] = (),
    corpus: EvaluationText | None = None,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer of another kind on the same counts, to compare with.

    Args:
        kind: One of `BASELINES`:

            - "bpe": plain BPE, the tokens of `train(..., scaffold=False)`;
            - "wordpiece", "unigram": by the trainers of `tokenizers`, on the counted pre-tokens; "unigram"
              with whole words among its candidates, which that trainer leaves out of pre-tokens;
            - "sentencepiece-bpe", "sentencepiece-unigram": by `sentencepiece`, on characters with
              byte_fallback and split_digits. Its words are the counted pre-tokens, without line ends and
              tabs, which it leaves to bytes; a space is "▁". Its "unigram" needs the text, as a word is a
              candidate only if different characters follow it; it is trained on a sample of lines, spread
              evenly, of 16 MB together;
            - "trimmed", "leaf", "residue", "picky": as `train` makes them (docs/methods.md).
        counts: With an alphabet of bytes. The trainers of `tokenizers` look at pre-tokens and their counts
            alone, so this equals training on the text.
        vocab_size: Tokens, special tokens included; fewer where candidates run out.
        corpus: For "sentencepiece-unigram" alone: what was counted.
        special_tokens: Control tokens. They come first, or after "<unk>" if there is one.
    Returns:
        A tokenizer that `save_pretrained` writes; "bpe" and the SentencePiece kinds the same bytes each time:
        the trainers of `tokenizers` decide ties by the order of a hash table.
    Raises:
        ConfigurationError: no such kind, an alphabet of characters, or sentencepiece is not installed.
        VocabSizeError: vocab_size is below special tokens and alphabet.
    Cost: for 64 MB of novels and 32,000 tokens, seconds of one core: "bpe" 1, "wordpiece" 10, "unigram" 50,
        "sentencepiece-bpe" 1.5, "sentencepiece-unigram" 25.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> train_baseline("bpe", counts, 259).tokenize("hugs")
        ['hug', 's']
        >>> train_baseline("wordpiece", counts, 520).tokenize("bugs")
        ['b', '…ug', '…s']
    """
    string("kind", kind)
    if not isinstance(counts, PreTokenCounts):
        raise TypeError(f"counts must be PreTokenCounts, not {shortened(counts)}; hs.count(…) makes them")
    vocab_size = whole("vocab_size", vocab_size, most=LARGEST_ID, reason="ids are 32-bit integers")
    special_tokens = strings("special_tokens", special_tokens)
    if not isinstance(corpus, EvaluationText | None):
        raise TypeError(f"corpus must be an EvaluationText, not {shortened(corpus)}")
    require_kind(kind)
    if counts.pre_tokenizer.alphabet != "bytes":
        raise ConfigurationError("baselines are trained on bytes; count the corpus with alphabet='bytes'")
    require_vocab_size([kind], vocab_size, len(special_tokens))
    if kind in RIVALS:
        rival = train(counts, vocab_size, special_tokens=special_tokens, method=kind)
        made: PreTrainedTokenizerFast = rival.to_tokenizer()
        return made
    backend = _backend(kind, counts, corpus, vocab_size, special_tokens)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in special_tokens])
    from transformers import PreTrainedTokenizerFast

    has_unknown = backend.token_to_id(UNKNOWN) is not None
    settings: Any = {"tokenizer_object": backend, "unk_token": UNKNOWN if has_unknown else None}
    return PreTrainedTokenizerFast(**settings)  # type: ignore[no-untyped-call]  # it has no annotations


def require_vocab_size(kinds: Sequence[str], vocab_size: int, n_special_tokens: int) -> None:
    """Refuse a size too small for one of these baselines, before work begins."""
    smallest = n_special_tokens + max(_SMALLEST[kind] for kind in kinds)
    if vocab_size < smallest:
        raise VocabSizeError(
            f"vocab_size is {vocab_size}, but special tokens and alphabet need {smallest}; raise vocab_size",
            smallest,
        )


def require_kind(kind: str) -> None:
    """Refuse an unknown baseline, or one that takes a package that is not installed."""
    if kind not in BASELINES:
        raise ConfigurationError(f"unknown baseline {kind!r}; choose from {', '.join(BASELINES)}")
    if kind.startswith("sentencepiece"):
        import_extra("sentencepiece", "baselines")


def _backend(
    kind: str,
    counts: PreTokenCounts,
    corpus: EvaluationText | None,
    vocab_size: int,
    special_tokens: list[str],
) -> Tokenizer:
    """The trained tokenizer; if training takes more than a moment, Ctrl-C doesn't have to wait for it."""
    if kind == "bpe":
        return _train_bpe(counts, vocab_size, special_tokens)
    given: list[Any] = ["bpe", counts] if kind == "sentencepiece-bpe" else [counts]
    n_bytes = counts.n_bytes
    if kind == "sentencepiece-unigram":
        if corpus is None:
            raise ConfigurationError(
                f"{kind} can't be trained on counts; give corpus=EvaluationText(…) as well"
            )
        given = ["unigram", list(_sampled_lines(corpus))]
        n_bytes = sum(map(len, given[1]))
    by_kind: dict[str, Callable[..., Tokenizer]] = {"wordpiece": _train_wordpiece, "unigram": _train_unigram}
    train_it = by_kind.get(kind, _train_sentencepiece)
    given += [vocab_size, special_tokens]
    return train_it(*given) if n_bytes < _MOMENT else in_child(train_it, *given)


def _train_bpe(counts: PreTokenCounts, vocab_size: int, special_tokens: list[str]) -> Tokenizer:
    bpe = train(counts, vocab_size, special_tokens=special_tokens, scaffold=False)
    return _on_bytes(Tokenizer(bpe.raw_model()), counts, decoders.ByteLevel())


def _train_wordpiece(counts: PreTokenCounts, vocab_size: int, special_tokens: list[str]) -> Tokenizer:
    # The trainer knows only the continuing symbols that occur; without the others, other texts have unknowns.
    missing = [CONTINUING_PREFIX + s for s in _ALPHABET if s not in _continuing_symbols(counts)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size - len(missing),
        special_tokens=[UNKNOWN, *special_tokens],
        initial_alphabet=_ALPHABET,
        continuing_subword_prefix=CONTINUING_PREFIX,
        show_progress=False,
    )
    vocab = _trained(models.WordPiece(unk_token=UNKNOWN), trainer, counts).get_vocab()
    vocab |= {token: len(vocab) + i for i, token in enumerate(missing)}
    model = models.WordPiece(
        vocab,
        unk_token=UNKNOWN,
        max_input_chars_per_word=_LONGEST_WORD,
        continuing_subword_prefix=CONTINUING_PREFIX,
    )
    unprefixed = decoders.Replace(Regex(f"^{CONTINUING_PREFIX}"), "")
    return _on_bytes(Tokenizer(model), counts, decoders.Sequence([unprefixed, decoders.ByteLevel()]))


def _continuing_symbols(counts: PreTokenCounts) -> set[str]:
    """The symbols that occur other than at the start of a pre-token."""
    inside = np.ones(len(counts.data), bool)
    inside[counts.offsets[:-1]] = False
    occurring = np.unique(np.frombuffer(counts.data, np.uint8)[inside])
    return {BYTE_TO_SYMBOL[byte] for byte in occurring.tolist()}


def _train_unigram(counts: PreTokenCounts, vocab_size: int, special_tokens: list[str]) -> Tokenizer:
    # A string is a candidate only if different characters follow it. Whole words are followed by their end
    # alone: without two kinds of end, only those that begin longer words could become tokens.
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size + len(WORD_ENDS),
        special_tokens=special_tokens,
        initial_alphabet=_ALPHABET,
        show_progress=False,
    )
    trained = json.loads(_trained(models.Unigram(), trainer, counts, WORD_ENDS).to_str())["model"]["vocab"]
    # Both ends are tokens of one character, as the same character follows each. They go, and scores stay: an
    # end adds the same to every way to cut a word.
    pieces = [(piece, score) for piece, score in trained if piece not in WORD_ENDS]
    return _on_bytes(Tokenizer(models.Unigram(pieces)), counts, decoders.ByteLevel())


def _trained(model: Any, trainer: Any, counts: PreTokenCounts, word_ends: Sequence[str] = ("",)) -> Tokenizer:
    """A model of `tokenizers`, trained on pre-tokens in the byte-level alphabet: it has no white space."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeated(counts, word_ends), trainer)
    return tokenizer


def _repeated(counts: PreTokenCounts, word_ends: Sequence[str] = ("",)) -> Iterator[str]:
    """Texts in which each pre-token occurs as often as it is counted, with a space after each.

    Args:
        word_ends: What comes before the space; several share a pre-token's occurrences, the first ones taking
            what is left over.
    """
    chunk, room = [], _CHUNK
    for pretoken, count in counts.items():
        for number, end in enumerate(word_ends):
            left = (count + len(word_ends) - 1 - number) // len(word_ends)
            word = bytes_to_symbols(pretoken) + end + " "
            while left:
                n = min(left, max(1, room // len(word)))
                chunk.append(word * n)
                room -= n * len(word)
                left -= n
                if room <= 0 or left:
                    yield "".join(chunk)
                    chunk, room = [], _CHUNK
    yield "".join(chunk)


def _on_bytes(backend: Tokenizer, counts: PreTokenCounts, decoder: decoders.Decoder) -> Tokenizer:
    """The tokenizer with the pipeline that the counts were made by."""
    if counts.pre_tokenizer.normalizer is not None:
        backend.normalizer = counts.pre_tokenizer.normalizer
    backend.pre_tokenizer = counts.pre_tokenizer.pre_tokenizer
    backend.decoder = decoder
    return backend


def _train_sentencepiece(
    model_type: str, text: PreTokenCounts | list[str], vocab_size: int, special_tokens: list[str]
) -> Tokenizer:
    sentencepiece = import_extra("sentencepiece", "baselines")
    with tempfile.TemporaryDirectory(prefix="hf-scaffold-") as folder:
        given: dict[str, Any]
        if isinstance(text, PreTokenCounts):
            words = Path(folder, "words.tsv")
            with words.open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(_sentencepiece_words(text))
            given = {"input": str(words), "input_format": "tsv"}
        else:
            given = {"sentence_iterator": iter(text), "max_sentence_length": 1 << 20}
        try:
            sentencepiece.SentencePieceTrainer.train(
                **given,
                model_prefix=str(Path(folder, "trained")),
                model_type=model_type,
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                unk_piece=UNKNOWN,
                bos_id=-1,
                eos_id=-1,
                control_symbols=special_tokens,
                character_coverage=0.9995,
                byte_fallback=True,
                split_digits=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                add_dummy_prefix=False,
                num_threads=n_cpus(),
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ConfigurationError(f"sentencepiece can't train on this: {error}") from error
        processor = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "trained.model")))
    return _sentencepiece_backend(processor, model_type)


def _sentencepiece_words(counts: PreTokenCounts) -> Iterator[str]:
    """Lines of word and count, without bytes that aren't text and white space other than spaces."""
    for pretoken, n in counts.items():
        word = re.sub(r"[^\S ]|\0", "", pretoken.decode(errors="ignore"))
        if word.strip():
            yield f"{word}\t{n}\n"


def _sampled_lines(corpus: EvaluationText) -> Iterator[str]:
    """Every k-th line, without its end: some _SAMPLE bytes."""
    step = max(1, round(corpus.n_bytes / _SAMPLE))
    lines = (line for document in corpus.documents() for line in document.split("\n"))
    return (line.replace("\0", "").rstrip("\r") for line in islice(lines, 0, None, step) if line.strip())


def _sentencepiece_backend(processor: Any, model_type: str) -> Tokenizer:
    """What encodes as SentencePiece does: text is cut before each "▁", which no piece has inside."""
    ids = range(processor.get_piece_size())
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in ids]
    if model_type == "unigram":
        model: models.Model = models.Unigram(pieces, processor.unk_id(), byte_fallback=True)
    else:
        from transformers.convert_slow_tokenizer import generate_merges

        vocab = {piece: token_id for token_id, (piece, _) in enumerate(pieces)}
        # The piece made first has the largest score.
        are_unmerged = (processor.is_control, processor.is_unknown, processor.is_byte)
        scores = {
            piece: score for i, (piece, score) in enumerate(pieces) if not any(are(i) for are in are_unmerged)
        }
        merges = generate_merges(vocab, scores)
        model = models.BPE(vocab, merges, unk_token=UNKNOWN, fuse_unk=True, byte_fallback=True)
    backend = Tokenizer(model)
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(steps)
    return backend


# ---- anyone's


@knows_its_arguments
def load_tokenizer(source: str | os.PathLike[str]) -> Any:
    """A tokenizer from wherever it is, as something that `evaluate` takes.

    Args:
        source: A `tokenizer.json`; a `.model` of SentencePiece; a `.tiktoken` file that docs/export.md tells
            of; a folder that `save_pretrained` wrote, or a name on the Hub, for `AutoTokenizer`.
    Returns:
        A `tokenizers.Tokenizer`, a `SentencePieceProcessor` or a tokenizer of transformers.
    Raises:
        FileNotFoundError: no such file.
        ConfigurationError: the file can't be read, or needs a package that is not installed.
        OSError: AutoTokenizer finds nothing of that name.
    """
    path = Path(source)
    loader = _LOADERS.get(path.suffix)
    if (path / "demolish.json").is_file() and not (path / "tokenizer.json").is_file():
        raise ConfigurationError(f"{path} is an artifact's folder; read it with hs.ScaffoldBPE.load")
    if loader is None or path.is_dir():
        from transformers import AutoTokenizer

        return load_pretrained(os.fspath(source), AutoTokenizer.from_pretrained)
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file {path}; a folder or a name on the Hub has no {path.suffix}"
        )
    try:
        return loader(path)
    except ConfigurationError:
        raise
    except Exception as error:  # `tokenizers` and `sentencepiece` raise nothing narrower
        raise ConfigurationError(f"{path} can't be read as a tokenizer: {error}") from error


def _load_sentencepiece(path: Path) -> Any:
    sentencepiece = import_extra("sentencepiece", "baselines")
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


_LOADERS: Mapping[str, Callable[[Path], Any]] = {
    ".json": load_json,
    ".model": _load_sentencepiece,
    ".tiktoken": tiktoken.read,
}
