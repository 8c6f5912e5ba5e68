"""What each program makes of a saved tokenizer: the ids of texts, and the texts of these ids.

Some load our class, whose ids are exact; the others read tokenizer.json, which holds plain BPE. How they run
that is in `PROGRAMS`.
"""

import base64
import contextlib
import copy
import json
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Texts = list[str]
Lists = list[list[int]]
Reader = Callable[[Path, Texts], tuple[Lists, Texts]]

EXACT = "exact"
RAW = "raw"  # as `tokenizers` runs tokenizer.json
MERGES_ONLY = "merges only"  # the same without `ignore_merges`
STRINGS = "strings"  # plain BPE that merges whatever two tokens together spell a third
REFUSED = "refused"

BYTES = ("gpt2-digits", "gpt2", "llama3")
PRESETS = (*BYTES, "metaspace")

NODE = Path(__file__).parents[1] / ".venv-programs" / "node"
TRANSFORMERS_JS = NODE / "node_modules" / "@huggingface" / "transformers"


# ---- through our class


def auto_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


def transformers(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    tokenizer = auto_tokenizer(folder)
    ids = tokenizer(texts)["input_ids"]
    return ids, tokenizer.batch_decode(ids)


def patched_transformers(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    import fastokens

    with contextlib.redirect_stdout(None):
        fastokens.patch_transformers()
    return transformers(folder, texts)


def datasets(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    from datasets import Dataset

    tokenizer = auto_tokenizer(folder)
    rows = Dataset.from_dict({"text": texts}).map(lambda batch: tokenizer(batch["text"]), batched=True)
    ids = [*rows["input_ids"]]
    return ids, tokenizer.batch_decode(ids)


def trl(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    """What SFTTrainer trains on, without the eos_token it adds to each text."""
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    tokenizer = auto_tokenizer(folder)
    tokenizer.pad_token = tokenizer.eos_token
    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size))
    with tempfile.TemporaryDirectory() as output:
        settings = SFTConfig(output, max_length=None, use_cpu=True, bf16=False, report_to=[])
        dataset = Dataset.from_dict({"text": texts})
        trainer = SFTTrainer(model, settings, train_dataset=dataset, processing_class=tokenizer)
        rows = [*trainer.train_dataset["input_ids"]]
    ids = [row[:-1] if row[-1:] == [tokenizer.eos_token_id] else row for row in rows]
    return ids, tokenizer.batch_decode(ids)


def vllm(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    """What vLLM does with a tokenizer, written after its source: vLLM itself is not run.

    `get_cached_tokenizer` puts a subclass in place of the class of a copy; `FastIncrementalDetokenizer` feeds
    the ids to a DecodeStream of the backend, one at a time.
    """
    import tokenizers.decoders

    tokenizer = copy.copy(auto_tokenizer(folder))
    vocab, size = tokenizer.get_vocab(), len(tokenizer)

    class CachedTokenizer(type(tokenizer)):  # type: ignore[misc]
        def get_vocab(self) -> dict[str, int]:
            return vocab

        def __len__(self) -> int:
            return size

    CachedTokenizer.__name__ = f"Cached{type(tokenizer).__name__}"
    tokenizer.__class__ = CachedTokenizer
    ids = [tokenizer.encode(text) for text in texts]
    decoded = []
    for row in ids:
        stream = tokenizers.decoders.DecodeStream(ids=[], skip_special_tokens=True)
        decoded.append("".join(stream.step(tokenizer._tokenizer, token_id) or "" for token_id in row))
    return ids, decoded


# ---- datatrove


def write_and_read(step: Any, tokenizer: Path, texts: Texts) -> Lists:
    """The ids in the files of one of datatrove's steps."""
    import numpy as np
    from datatrove.data import Document

    with tempfile.TemporaryDirectory() as output:
        writer = step(output, os.fspath(tokenizer), shuffle_documents=False)
        documents = (Document(text, str(i)) for i, text in enumerate(texts))
        for _ in writer.run(documents) or ():
            pass
        (path,) = Path(output).rglob("*.ds")
        ids = np.fromfile(path, f"<u{writer.token_size}")
        ends = np.fromfile(f"{path}.index", "<u8")
    return [row.tolist() for row in np.split(ids, ends[:-1].astype(int))]


def datatrove_of_ours(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    from hf_scaffold.scale.datatrove import ScaffoldTokenizer

    ids = write_and_read(ScaffoldTokenizer, folder, texts)
    return ids, auto_tokenizer(folder).batch_decode(ids)


def datatrove(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    from datatrove.pipeline.tokens import DocumentTokenizer

    ids = write_and_read(DocumentTokenizer, folder / "tokenizer.json", texts)
    return ids, auto_tokenizer(folder).batch_decode(ids)


# ---- from tokenizer.json


def tokenizers(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    """What anyone gets who takes `backend_tokenizer`; of any release."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
    ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    return ids, [tokenizer.decode(row) for row in ids]


def gigatoken(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    from gigatoken import Tokenizer

    tokenizer = Tokenizer(os.fspath(folder))
    ids = tokenizer.encode_batch_list(texts)
    return ids, [tokenizer.decode(row).decode() for row in ids]


def fastokens(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    from fastokens import Tokenizer

    tokenizer = Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
    ids = [[*encoding.ids] for encoding in tokenizer.encode_batch(texts)]
    return ids, [tokenizer.decode(row) for row in ids]


def transformers_js(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    with tempfile.TemporaryDirectory() as scratch:
        given, found = Path(scratch, "texts.json"), Path(scratch, "found.json")
        given.write_text(json.dumps(texts), encoding="utf-8")
        script = Path(__file__).with_name("transformers_js.mjs")
        command = ["node", script, TRANSFORMERS_JS, folder.resolve(), given, found]
        subprocess.run(command, check=True, capture_output=True, text=True)
        ids, decoded = json.loads(found.read_bytes())
    return ids, decoded


# ---- llama.cpp


def llama_cpp(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    """By the server in xllamacpp, which is llama.cpp; from GGUF with a model of no use."""
    import xllamacpp

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "model.gguf")
        write_gguf(os.fspath(folder), path)
        settings = xllamacpp.CommonParams()
        settings.model.path, settings.n_ctx, settings.warmup, settings.port = os.fspath(path), 64, False, 0
        server = xllamacpp.Server(settings)

        def ask(what: str, **content: Any) -> Any:
            data = json.dumps(content).encode()
            request = urllib.request.Request(f"{server.listening_address}/{what}", data)
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        ids = [ask("tokenize", content=text, add_special=False)["tokens"] for text in texts]
        return ids, [ask("detokenize", tokens=row)["content"] for row in ids]


def write_gguf(tokenizer: Any, path: Path, width: int = 64) -> None:
    """What `hf-scaffold export` writes, with one layer of zeros: the server loads nothing less."""
    import numpy as np
    from gguf import GGUFWriter

    from hf_scaffold.lifecycle.exporting import gguf_vocabulary
    from hf_scaffold.lifecycle.models import as_fast_or_scaffold
    from hf_scaffold.lifecycle.plain_engines import Source

    vocabulary, _ = gguf_vocabulary(Source(as_fast_or_scaffold(tokenizer), raw=True))
    tokens = vocabulary.tokens
    writer = GGUFWriter(path, "llama")
    vocabulary.add_to(writer)
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(64)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    for add in (writer.add_embedding_length, writer.add_feed_forward_length, writer.add_rope_dimension_count):
        add(width)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(tokens), width), "output_norm": (width,)}
    shapes |= dict.fromkeys(("blk.0.attn_norm", "blk.0.ffn_norm"), (width,))
    layers = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes |= {f"blk.0.{layer}": (width, width) for layer in layers}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- from other exports


def sentencepiece(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    import sentencepiece

    import hf_scaffold as hs

    with tempfile.TemporaryDirectory() as scratch:
        model = hs.export(os.fspath(folder), Path(scratch, "exported.model"), "sentencepiece").paths[0]
        processor = sentencepiece.SentencePieceProcessor(model_file=os.fspath(model))
    ids = processor.encode(texts)
    return ids, processor.decode(ids)


def tiktoken(folder: Path, texts: Texts) -> tuple[Lists, Texts]:
    import tiktoken

    import hf_scaffold as hs

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "exported.tiktoken")
        ranks, beside = hs.export(os.fspath(folder), path, "tiktoken", raw=True).paths
        pairs = [line.split() for line in ranks.read_bytes().splitlines()]
        settings = json.loads(beside.read_bytes())
    by_token = {base64.b64decode(token): int(rank) for token, rank in pairs}
    encoding = tiktoken.Encoding(mergeable_ranks=by_token, **settings)
    ids = encoding.encode_ordinary_batch(texts)
    return ids, encoding.decode_batch(ids)


# ---- all of them


@dataclass(frozen=True)
class Program:
    """A program, and what it is known to give.

    Args:
        read: Ids and decoded texts.
        packages: What has to be installed; the first one's version is shown.
        sees: EXACT, RAW, MERGES_ONLY, STRINGS or REFUSED, by the pre-tokenizer's preset.
        reads: What of a tokenizer it reads.
        apart: Whether it needs the environment of tokenizers 1.0.
    """

    read: Reader
    packages: tuple[str, ...]
    sees: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(PRESETS, EXACT))
    reads: str = "our class"
    apart: bool = False


JSON = "tokenizer.json"
ALL_RAW = dict.fromkeys(PRESETS, RAW)
PROGRAMS = {
    "transformers": Program(transformers, ("transformers",)),
    "transformers, patched by fastokens": Program(patched_transformers, ("fastokens",)),
    "vLLM, by its code path, not run": Program(vllm, ("transformers",)),
    "TRL": Program(trl, ("trl", "torch")),
    "datasets": Program(datasets, ("datasets",)),
    "datatrove, our ScaffoldTokenizer": Program(datatrove_of_ours, ("datatrove",)),
    "datatrove, its DocumentTokenizer": Program(datatrove, ("datatrove",), ALL_RAW, JSON),
    "tokenizers, backend_tokenizer": Program(tokenizers, ("tokenizers",), ALL_RAW, JSON),
    "tokenizers 1.0": Program(tokenizers, ("tokenizers",), ALL_RAW, JSON, True),
    "gigatoken": Program(
        gigatoken, ("gigatoken",), ALL_RAW | {"gpt2-digits": REFUSED, "metaspace": MERGES_ONLY}, JSON
    ),
    "fastokens": Program(fastokens, ("fastokens",), ALL_RAW | {"metaspace": REFUSED}, JSON),
    "transformers.js": Program(transformers_js, (), ALL_RAW | {"metaspace": MERGES_ONLY}, JSON),
    "SentencePiece": Program(
        sentencepiece,
        ("sentencepiece", "google"),  # protobuf
        dict.fromkeys(BYTES, REFUSED) | {"metaspace": EXACT},
        "export",
    ),
    "tiktoken": Program(
        tiktoken, ("tiktoken",), dict.fromkeys(BYTES, STRINGS) | {"metaspace": REFUSED}, "export"
    ),
    "llama.cpp": Program(
        llama_cpp,
        ("xllamacpp", "gguf"),
        {"gpt2-digits": MERGES_ONLY, "gpt2": MERGES_ONLY, "llama3": RAW, "metaspace": STRINGS},
        "export",
    ),
}


def missing(program: Program) -> Iterator[str]:
    """What has to be installed in this environment before it can run."""
    from importlib.util import find_spec
    from shutil import which

    yield from (package for package in program.packages if find_spec(package) is None)
    if program.read is transformers_js:
        yield from (str(TRANSFORMERS_JS),) if not TRANSFORMERS_JS.is_dir() else ()
        yield from ("node",) if which("node") is None else ()


def version(program: Program) -> str:
    import importlib.metadata

    if program.read is transformers_js:
        content = json.loads((TRANSFORMERS_JS / "package.json").read_bytes())
        return str(content["version"])
    return importlib.metadata.version(program.packages[0])
