"""The folders and files that mutations start from: small, and one of every kind that the package reads."""

import warnings
from functools import partial
from pathlib import Path

import toys
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

import hf_scaffold as hs

CORPUS = [" ".join(word for word, count in toys.WORDS.items() for _ in range(min(count, 9)))]
# Beside every tokenizer, where its class would be: a file that says so if it is ever run.
HOSTILE_CODE = 'import os\nopen(os.environ["ATTACK_MARKER"], "w").close()\n'
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def byte_level(folder: Path) -> None:
    toys.tokenizer(post_processor="bos and eos", chat_template=CHAT_TEMPLATE).save_pretrained(folder)


def llama_like(folder: Path) -> None:
    tokenizer = toys.tokenizer(toys.trained(toys.SIZES[1]), post_processor="sequence", truncation_side="left")
    tokenizer.backend_tokenizer.pre_tokenizer = hs.get_pre_tokenizer("llama3").pre_tokenizer
    tokenizer.save_pretrained(folder)


def many_added(folder: Path) -> None:
    tokenizer = toys.tokenizer(post_processor="roberta")
    tokenizer.add_tokens([AddedToken(f"<w{i}>", lstrip=i % 2 == 0, rstrip=i % 3 == 0) for i in range(150)])
    tokenizer.add_tokens([AddedToken("zona", single_word=True), AddedToken("ana"), "<|call|>"])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|tool|>"]})
    tokenizer.save_pretrained(folder)


def normalized(folder: Path) -> None:
    toys.tokenizer(normalizer="NFKD", pre_tokenizer="prefix space").save_pretrained(folder)


def trained_on_characters(folder: Path, pre_tokenizer: str = "whitespace-split", **settings: object) -> None:
    counts = hs.count(CORPUS, pre_tokenizer=pre_tokenizer, alphabet="chars")
    specials = ["<unk>", "<s>", "</s>"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bpe = hs.train(counts, 400, special_tokens=specials, unk_token="<unk>", **settings)
    bpe.to_tokenizer(unk_token="<unk>", eos_token="</s>", pad_token="</s>").save_pretrained(folder)


def converted(folder: Path) -> None:
    """With ids that are reserved for nothing, and a BERT-like frame."""
    result = toys.trained(toys.SIZES[1], scaffold=False)
    plain = Tokenizer(models.BPE({token: i for i, token in enumerate(result.vocab)}, result.merges))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(list(toys.SPECIAL_TOKENS))
    plain.post_processor = processors.BertProcessing(toys.EOS, toys.BOS)
    hs.convert_tokenizer(plain, CORPUS).tokenizer.save_pretrained(folder)


def artifact(folder: Path, **settings: object) -> None:
    counts = hs.count(CORPUS, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        hs.train(counts, 300, special_tokens=["<s>"], log=True).save(folder)


def counts_table(folder: Path) -> None:
    folder.mkdir()
    hs.count(CORPUS).save(folder / "counts.parquet")


def shards(folder: Path, format: str) -> None:
    text = folder.with_suffix(".txt")
    text.write_text(CORPUS[0], encoding="utf-8")
    hs.write_shards(text, toys.tokenizer(), folder, format=format, shard_size=50)


TOKENIZERS = {
    "byte-level": byte_level,
    "llama-like": llama_like,
    "many-added": many_added,
    "normalized": normalized,
    "converted": converted,
    "metaspace": partial(trained_on_characters, pre_tokenizer="metaspace", byte_fallback=True),
    "suffix": partial(trained_on_characters, end_of_word_suffix="</w>"),
    "prefix": partial(trained_on_characters, continuing_subword_prefix="##", fuse_unk=True),
}
OTHERS = {
    "artifact": artifact,
    "character-artifact": partial(artifact, pre_tokenizer="whitespace-split", alphabet="chars"),
    "counts": counts_table,
    "bin-shards": partial(shards, format="bin"),
    "parquet-shards": partial(shards, format="parquet"),
}


def make_seeds(folder: Path) -> dict[str, dict[str, bytes]]:
    """The content of every file of every kind of folder, by name."""
    seeds = {}
    for name, make in {**TOKENIZERS, **OTHERS}.items():
        make(folder / name)
        files = sorted(path for path in (folder / name).iterdir() if path.name != ".lock")
        seeds[name] = {path.name: path.read_bytes() for path in files}
        if name in TOKENIZERS:
            seeds[name]["tokenization_scaffold.py"] = HOSTILE_CODE.encode()
    return seeds
