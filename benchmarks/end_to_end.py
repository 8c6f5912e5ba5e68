"""A tokenizer's way from a text to a model that writes, step by step as its users go it.

    python benchmarks/end_to_end.py my-text.txt --vocab-size 16000

Ann trains a tokenizer with the command line and pushes it to the Hub, which is one on this machine. Bob has
no hf_scaffold. He loads the tokenizer from there, maps a dataset with two processes, trains a tiny GPT-2 for
a few steps and lets it write. The script fails if Bob's ids are not Ann's. It needs datasets and torch.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

# Nothing of hf_scaffold, nor what reads HF_ENDPOINT when it is imported: Bob runs this file, too.

PROGRAM = Path(sysconfig.get_path("scripts"), "hf-scaffold")
ANN = "token-of-ann"
REPOSITORY = "ann/words"
EOS = "<|endoftext|>"
N_COMPARED = 2_000  # lines that Ann encodes as well
BLOCK = 128  # tokens a row of the training set


def say(name: str, text: object) -> None:
    print(f"{name:<25}{text}", flush=True)


@contextmanager
def timed(name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    say(name, f"{time.perf_counter() - start:.2f} s")


def first_lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        return [line.rstrip("\n") for line, _ in zip(lines, range(N_COMPARED), strict=False)]


# ---- Ann


def train_and_push(text: Path, vocab_size: int, folder: Path, environment: dict[str, str]) -> None:
    for arguments in (
        ["train", text, "--vocab-size", str(vocab_size), "-o", folder],
        ["push", folder, REPOSITORY],
    ):
        print("$ hf-scaffold", *arguments, flush=True)
        if code := subprocess.run([PROGRAM, *arguments], env=environment, check=False).returncode:
            sys.exit(code)
        print()


def expected_ids(folder: Path, text: Path) -> list[list[int]]:
    """What Ann's tokenizer makes of the first lines."""
    from hf_scaffold import ScaffoldTokenizerFast

    ids: list[list[int]] = ScaffoldTokenizerFast.from_pretrained(folder)(first_lines(text))["input_ids"]
    return ids


# ---- Bob


def load_and_use(text: Path, expected: Path, steps: int) -> None:
    sys.modules["hf_scaffold"] = None  # type: ignore[assignment]  # importing it is a ModuleNotFoundError now
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    with timed("loading"):
        tokenizer = AutoTokenizer.from_pretrained(REPOSITORY, trust_remote_code=True)
    say("class", f"{type(tokenizer).__module__.partition('.')[0]}…{type(tokenizer).__name__}")
    say("tokens", f"{len(tokenizer):,}")
    compare(tokenizer, text, expected)
    model = train_gpt2(tokenizer, blocks(tokenizer, text), steps)
    generate(tokenizer, model, "She looked at")


def compare(tokenizer: Any, text: Path, expected: Path) -> None:
    lines = first_lines(text)
    if tokenizer(lines)["input_ids"] != json.loads(expected.read_bytes()):
        sys.exit("the ids differ from those where the tokenizer was trained")
    say("ids of lines", f"{len(lines):,} lines: all as where it was trained")


def blocks(tokenizer: Any, text: Path) -> Any:
    """The whole text as rows of as many ids each, mapped in two processes."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()

    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        ids = tokenizer(batch["text"], return_attention_mask=False)["input_ids"]
        return {"input_ids": [[*line, tokenizer.eos_token_id] for line in ids]}

    def cut(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        ids = list(chain.from_iterable(batch["input_ids"]))
        return {"input_ids": [ids[i : i + BLOCK] for i in range(0, len(ids) - BLOCK + 1, BLOCK)]}

    dataset = Dataset.from_text(str(text))
    say("dataset", f"{len(dataset):,} lines, {text.stat().st_size:,} bytes")
    options = {"batched": True, "num_proc": 2, "remove_columns": ["text"]}
    with timed("map in 2 processes"):
        encoded = dataset.map(encode, **options)
    with timed("map again, from cache"):
        again = dataset.map(encode, **options)
    if again._fingerprint != encoded._fingerprint:
        sys.exit("the second map has another fingerprint")
    rows = encoded.map(cut, batched=True, num_proc=2)
    say("training set", f"{len(rows):,} rows of {BLOCK} ids")
    return rows


def train_gpt2(tokenizer: Any, rows: Any, steps: int) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    size = {"n_positions": BLOCK, "n_embd": 64, "n_layer": 2, "n_head": 2}
    end = tokenizer.eos_token_id
    config = GPT2Config(
        vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, pad_token_id=end, **size
    )
    model = GPT2LMHeadModel(config)
    say("GPT-2", f"{model.num_parameters():,} parameters, at random")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    loader = torch.utils.data.DataLoader(rows.with_format("torch"), batch_size=8, shuffle=True)
    batches = chain.from_iterable(iter(loader) for _ in range(steps))  # a short text is read more than once
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        loss = model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1 or step % 5 == 0:
            say(f"loss at step {step}", f"{loss.item():.3f}")
    return model.eval()


def generate(tokenizer: Any, model: Any, prompt: str) -> None:
    inputs = tokenizer(prompt, return_tensors="pt")
    (ids,) = model.generate(**inputs, max_new_tokens=24, do_sample=True, top_k=50)
    say("generated", repr(tokenizer.decode(ids)))


# ---- both


def main(
    text: Annotated[
        Path | None, typer.Argument(help="A text file. [default: the novel in the package]")
    ] = None,
    vocab_size: Annotated[int, typer.Option(help="Of the tokenizer.")] = 4_000,
    steps: Annotated[int, typer.Option(help="Of the model's training.")] = 20,
    expected: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Train, push, load elsewhere, map, train a model, generate; print each step's figures."""
    if expected is not None and text is not None:
        return load_and_use(text, expected, steps)
    from hf_scaffold.cli.demo import TEXT

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from hub_server import HubServer

    text = (text or TEXT).absolute()
    with HubServer({ANN: "ann"}) as hub, tempfile.TemporaryDirectory() as temporary:
        folder, ids = Path(temporary, "words"), Path(temporary, "ids.json")
        own = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        train_and_push(text, vocab_size, folder, {**own, **hub.environment(f"{temporary}/ann", ANN)})
        for name, data in sorted(hub.repositories[REPOSITORY].files().items()):
            say(name, f"{len(data):,} bytes")
        ids.write_text(json.dumps(expected_ids(folder, text)))
        print("\n# In a process without hf_scaffold", flush=True)
        command = [sys.executable, __file__, text, "--expected", ids, "--steps", str(steps)]
        bob = subprocess.run(command, env={**own, **hub.environment(f"{temporary}/bob")}, check=False)
    sys.exit(bob.returncode)


if __name__ == "__main__":
    typer.run(main)
