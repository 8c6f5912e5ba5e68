"""One function an encoder: loads a tokenizer from the folder that `write_tokenizers` filled.

There are two: Scaffold-BPE, and plain BPE of the same size, which every program can load.
"""

import json
import os
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = "<|endoftext|>"
SCAFFOLD, PLAIN = "scaffold", "plain"
STOCK = "stock"  # the plain one as `tokenizers` and transformers write it: no trace of ours

Texts = list[str]
Rows = tuple[Any, Any]  # ids of all texts one after another, and len(texts) + 1 offsets


def write_tokenizers(text: Path, vocab_size: int, pre_tokenizer: str, folder: Path) -> None:
    """Train on a text both tokenizers that the encoders load."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    import hf_scaffold as hs

    counts = hs.count(text, pre_tokenizer=pre_tokenizer)
    for name in (SCAFFOLD, PLAIN):
        bpe = hs.train(counts, vocab_size, special_tokens=[SPECIAL], scaffold=name == SCAFFOLD)
        tokenizer = bpe.to_tokenizer(eos_token=SPECIAL)
        tokenizer.save_pretrained(folder / name)
    plain = Tokenizer(models.BPE(bpe.vocab, bpe.merges))
    plain.pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens([SPECIAL])
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token=SPECIAL).save_pretrained(folder / STOCK)


# ---- rows: what the ids are compared by


def rows_of_lists(lists: Sequence[Sequence[int]]) -> Rows:
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return np.fromiter(chain.from_iterable(lists), np.int32, offsets[-1]), offsets


def rows_of_arrow(array: Any) -> Rows:
    return array.values.to_numpy(), array.offsets.to_numpy()


def rows_of_awkward(array: Any) -> Rows:
    return array.layout.content.data, array.layout.offsets.data


def rows_of_bytes(encoded: tuple[bytes, bytes]) -> Rows:
    return np.frombuffer(encoded[0], np.uint32), np.frombuffer(encoded[1], np.uint64)


def rows_of_shards(folder: Path) -> Rows:
    """From `.bin` and the `.idx` beside it, in the form that Megatron reads."""
    ids, lengths = [], []
    for path in sorted(folder.glob("*.bin")):
        index = path.with_suffix(".idx").read_bytes()
        _, code, n_rows, _ = struct.unpack_from("<QBQQ", index, offset=9)
        ids.append(np.fromfile(path, np.uint16 if code == 8 else np.uint32))
        lengths.append(np.frombuffer(index, np.int32, n_rows, offset=9 + struct.calcsize("<QBQQ")))
    return np.concatenate(ids), np.cumsum([0, *np.concatenate(lengths)], dtype=np.int64)


# ---- encoders


@dataclass(frozen=True)
class Setting:
    """Where the tokenizers are, the texts as JSON Lines, and how many threads to use."""

    folder: Path
    corpus: Path
    threads: int

    @property
    def stock_file(self) -> str:
        return os.fspath(self.folder / STOCK / "tokenizer.json")


@dataclass(frozen=True)
class Encoder:
    """A loaded tokenizer; what it can't do is None.

    Args:
        encode: Texts to ids, in the encoder's own form.
        rows: That form to rows.
        one: One short text to ids.
        decode: That form to texts.
        map: A dataset with a column "text", and where to cache, to a dataset with a column "input_ids".
    """

    encode: Callable[[Texts], Any]
    rows: Callable[[Any], Rows] = rows_of_lists
    one: Callable[[str], Any] | None = None
    decode: Callable[[Any], Texts] | None = None
    map: Callable[[Any, str], Any] | None = None


@dataclass(frozen=True)
class Peer:
    """How to load an encoder.

    Args:
        load: Loads it.
        tasks: What it can do.
        tokenizer: Which of the two it loads.
        has_merges: It loads the merges themselves, so that no id may differ from another such peer's.
        is_slow: It gets fewer rounds.
        module: What has to be there, besides the package.
        env: Environment of its process.
    """

    load: Callable[[Setting], Encoder]
    tasks: tuple[str, ...]
    tokenizer: str = PLAIN
    has_merges: bool = True
    is_slow: bool = False
    module: str = ""
    env: dict[str, str] = field(default_factory=dict)


def call_encoder(tokenizer: Any) -> Encoder:
    """The ordinary call of transformers."""
    return Encoder(
        encode=lambda texts: tokenizer(texts)["input_ids"],
        one=lambda text: tokenizer(text)["input_ids"],
        decode=tokenizer.batch_decode,
        map=lambda dataset, cache: dataset.map(
            lambda rows: tokenizer(rows["text"]),
            batched=True,
            remove_columns=["text"],
            cache_file_name=cache,
        ),
    )


def encodings_encoder(tokenizer: Any, encode_batch: Callable[[Texts], Any]) -> Encoder:
    """The interface of tokenizers, whose encodings have the ids."""
    return Encoder(
        encode=lambda texts: [encoding.ids for encoding in encode_batch(texts)],
        one=lambda text: tokenizer.encode(text).ids,
        decode=tokenizer.decode_batch,
    )


def ours(setting: Setting, name: str = SCAFFOLD) -> Any:
    from hf_scaffold import ScaffoldTokenizerFast

    return ScaffoldTokenizerFast.from_pretrained(setting.folder / name)


def ours_lists(setting: Setting) -> Encoder:
    return call_encoder(ours(setting))


def ours_plain(setting: Setting) -> Encoder:
    return call_encoder(ours(setting, PLAIN))


def ours_arrays(setting: Setting, name: str = SCAFFOLD) -> Encoder:
    return Encoder(encode=ours(setting, name).encode_batch_to_arrays, rows=lambda arrays: arrays)


def ours_bare(setting: Setting) -> Encoder:
    """Ids alone, as those of its peers; a call of the tokenizer makes attention masks, too."""
    import hf_scaffold as hs

    return Encoder(encode=hs.Encoder.from_pretrained(setting.folder / PLAIN).encode_batch)


def ours_plain_arrays(setting: Setting) -> Encoder:
    return ours_arrays(setting, PLAIN)


def ours_arrow(setting: Setting) -> Encoder:
    import pyarrow as pa

    tokenizer = ours(setting)
    return Encoder(
        encode=tokenizer.encode_to_arrow,
        rows=rows_of_arrow,
        map=lambda dataset, cache: dataset.with_format("arrow").map(
            lambda table: pa.table({"input_ids": tokenizer.encode_to_arrow(table["text"])}),
            batched=True,
            remove_columns=["text"],
            cache_file_name=cache,
        ),
    )


def ours_files(setting: Setting) -> Encoder:
    """From JSON Lines on the disk to shards on the disk."""
    from hf_scaffold.shards.writing import write_shards

    tokenizer = ours(setting)

    def encode(texts: Texts) -> Path:
        shards = Path(tempfile.mkdtemp(dir=setting.folder))  # a new one: what is done would stay
        write_shards([setting.corpus], tokenizer, shards, add_eos=False)
        return shards

    return Encoder(encode, rows_of_shards)


def transformers(setting: Setting) -> Encoder:
    from transformers import PreTrainedTokenizerFast

    return call_encoder(PreTrainedTokenizerFast.from_pretrained(setting.folder / STOCK))


def tokenizers(setting: Setting) -> Encoder:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(setting.stock_file)
    return encodings_encoder(tokenizer, tokenizer.encode_batch_fast)


def tokenizers_1(setting: Setting) -> Encoder:
    """Release 1.0, in an environment of its own."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(setting.stock_file)
    return Encoder(encode=lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts)])


def tiktoken(setting: Setting) -> Encoder:
    import tiktoken
    from tiktoken_ext.openai_public import r50k_pat_str

    from hf_scaffold.text.byte_level import symbols_to_bytes

    stock = json.loads(Path(setting.stock_file).read_text())
    steps = stock["pre_tokenizer"].get("pretokenizers", [])
    pattern = steps[0]["pattern"]["Regex"] if steps else r50k_pat_str  # of ByteLevel alone
    vocab = stock["model"]["vocab"]
    special = {SPECIAL: vocab.pop(SPECIAL)}
    ranks = {symbols_to_bytes(token): token_id for token, token_id in vocab.items()}
    encoding = tiktoken.Encoding(PLAIN, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    return Encoder(
        encode=lambda texts: encoding.encode_ordinary_batch(texts, num_threads=setting.threads),
        one=encoding.encode_ordinary,
        decode=lambda lists: encoding.decode_batch(lists, num_threads=setting.threads),
    )


def gigatoken_lists(setting: Setting) -> Encoder:
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(setting.stock_file)
    return Encoder(
        encode=tokenizer.encode_batch_list,
        one=lambda text: tokenizer.encode_batch_list([text])[0],
        decode=lambda lists: [tokenizer.decode(ids).decode() for ids in lists],
    )


def gigatoken_arrays(setting: Setting) -> Encoder:
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(setting.stock_file)
    return Encoder(encode=tokenizer.encode_batch, rows=rows_of_awkward, one=tokenizer.encode)


def fastokens_lists(setting: Setting) -> Encoder:
    from fastokens import Tokenizer

    tokenizer = Tokenizer.from_file(setting.stock_file)
    return encodings_encoder(tokenizer, tokenizer.encode_batch)


def fastokens_arrays(setting: Setting) -> Encoder:
    from fastokens import Tokenizer

    tokenizer = Tokenizer.from_file(setting.stock_file)
    return Encoder(encode=tokenizer.encode_batch_flat, rows=rows_of_bytes)


CALL = ("encode", "decode", "sentence", "map")
LISTS = ("encode", "decode", "sentence")

# What text seen once is encoded with: plain BPE throughout, so that ids must agree.
FRESH: dict[str, dict[str, Callable[[Setting], Encoder]]] = {
    "arrays": {
        "hf_scaffold": ours_plain_arrays,
        "gigatoken": gigatoken_arrays,
        "fastokens": fastokens_arrays,
    },
    "lists": {
        "hf_scaffold": ours_bare,
        "hf_scaffold, tok(texts)": ours_plain,
        "gigatoken": gigatoken_lists,
        "fastokens": fastokens_lists,
        "tokenizers": tokenizers,
        "tokenizers 1": tokenizers_1,
    },
}

ENCODERS: dict[str, Peer] = {
    "hf_scaffold, lists": Peer(ours_lists, CALL, SCAFFOLD),
    "hf_scaffold, arrays": Peer(ours_arrays, ("encode",), SCAFFOLD),
    "hf_scaffold, Arrow": Peer(ours_arrow, ("encode", "map"), SCAFFOLD, module="pyarrow"),
    "hf_scaffold, files": Peer(ours_files, ("encode",), SCAFFOLD, module="hf_scaffold.shards.writing"),
    "hf_scaffold, Rust path": Peer(ours_lists, CALL, SCAFFOLD, is_slow=True, env={"HF_SCAFFOLD_NATIVE": "0"}),
    "hf_scaffold, scaffold=False": Peer(ours_plain, LISTS),
    "transformers": Peer(transformers, CALL, is_slow=True),
    "tokenizers": Peer(tokenizers, LISTS, is_slow=True),
    "tiktoken": Peer(tiktoken, LISTS, has_merges=False, is_slow=True),
    "gigatoken, lists": Peer(gigatoken_lists, LISTS),
    "gigatoken, arrays": Peer(gigatoken_arrays, ("encode", "sentence")),
    "fastokens, lists": Peer(fastokens_lists, LISTS),
    "fastokens, arrays": Peer(fastokens_arrays, ("encode",)),
}
