"""Data collators and Trainer take our batches as they take stock's; checkpoints carry the tokenizer."""

import os

import pytest
import torch
import toys
from datasets import Dataset
from test_interface import LONG, PAIR, TEXT, both
from tiny import CAUSAL, bert, causal
from torch.utils.data import DataLoader
from transformers import (
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorForTokenClassification,
    DataCollatorWithFlattening,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

TEXTS = [TEXT, LONG, PAIR]


# ---- data collators


def labelled(rows):
    return [{**row, "labels": list(range(len(row["input_ids"])))} for row in rows]


# The collator tells words by gaps between offsets, and doesn't pad these.
WHOLE_WORDS = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
COLLATORS = {
    "padding": lambda t: DataCollatorWithPadding(t, pad_to_multiple_of=8)(encoded(t)),
    "padding on the left": lambda t: DataCollatorWithPadding(t, padding="max_length", max_length=200)(
        encoded(t)
    ),
    "causal": lambda t: DataCollatorForLanguageModeling(t, mlm=False)(encoded(t)),
    "masked": lambda t: DataCollatorForLanguageModeling(t, seed=3)(encoded(t)),
    "masked, told specials": lambda t: DataCollatorForLanguageModeling(t, mlm_probability=0.5, seed=3)(
        encoded(t, return_special_tokens_mask=True)
    ),
    "whole words": lambda t: DataCollatorForLanguageModeling(
        t, whole_word_mask=True, mlm_probability=0.5, mask_replace_prob=1, random_replace_prob=0, seed=3
    )(encoded(t, **WHOLE_WORDS, padding="max_length", max_length=160)),
    "token classification": lambda t: DataCollatorForTokenClassification(t)(labelled(encoded(t))),
    "sequence to sequence": lambda t: DataCollatorForSeq2Seq(t, pad_to_multiple_of=4)(labelled(encoded(t))),
    "flattening": lambda t: DataCollatorWithFlattening()([dict(row) for row in encoded(t)]),
}


def encoded(tokenizer, **options):
    return [tokenizer(text, **options) for text in TEXTS]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", COLLATORS)
def test_collated_as_stocks(name, side):
    made = {"mask_token": "<|mask|>", "padding_side": side, "post_processor": "roberta"}
    ours, stock = map(COLLATORS[name], both(**made))
    assert list(ours) == list(stock)
    for column, tensor in stock.items():
        assert torch.is_tensor(tensor) == torch.is_tensor(ours[column])
        assert torch.as_tensor(ours[column]).equal(torch.as_tensor(tensor)), column


def test_the_pieces_of_a_demolished_token_are_masked_together():
    tokenizer = toys.tokenizer(toys.trained(326), post_processor="roberta", mask_token="<|mask|>")
    rows = [tokenizer("a nati zon ationa banana", **WHOLE_WORDS) for _ in range(8)]
    collator = DataCollatorForLanguageModeling(
        tokenizer,
        whole_word_mask=True,
        mlm_probability=0.2,
        mask_replace_prob=1,
        random_replace_prob=0,
        seed=0,
    )
    masked = collator([dict(row) for row in rows])["input_ids"] == tokenizer.mask_token_id
    words = [[i for i, w in enumerate(rows[0].word_ids()) if w == word] for word in range(5)]
    assert max(map(len, words)) > 3
    for row in masked:
        for word in words:
            assert len({*row[word].tolist()}) == 1
    assert 0 < masked.sum() < masked.numel()


class Collate:
    """Encodes in the workers of a DataLoader."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, texts):
        return self.tokenizer(texts, padding=True, truncation=True, max_length=20, return_tensors="pt")


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_loaders_encode_in_their_workers(start):
    tokenizer = both()[0]
    expected = [Collate(tokenizer)(TEXTS[i : i + 2])["input_ids"] for i in (0, 2)]  # used before the fork
    loader = DataLoader(TEXTS, 2, collate_fn=Collate(tokenizer), num_workers=1, multiprocessing_context=start)
    assert all(a["input_ids"].equal(b) for a, b in zip(loader, expected, strict=True))


def test_loaders_stream_datasets():
    tokenizer = both()[0]
    stream = Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(num_shards=2)
    rows = stream.map(lambda batch: tokenizer(batch["text"]), batched=True, remove_columns="text")
    loader = DataLoader(
        rows.with_format("torch"), batch_size=3, collate_fn=DataCollatorWithPadding(tokenizer)
    )
    (batch,) = loader
    assert batch["input_ids"].equal(tokenizer(TEXTS, padding=True, return_tensors="pt")["input_ids"])


# ---- Trainer


def train(model, tokenizer, rows, folder, mlm):
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=4,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        logging_steps=1,
        save_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=0,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        processing_class=tokenizer,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=mlm, mlm_probability=0.3),
    )
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("kind", [*CAUSAL, "bert"])
def test_a_few_steps_go_as_with_stock(kind, tmp_path):
    losses = []
    for name, tokenizer in zip(("ours", "stock"), both(mask_token="<|mask|>"), strict=True):
        rows = Dataset.from_dict({"text": TEXTS * 2}).map(
            lambda batch, tokenizer=tokenizer: tokenizer(batch["text"]), batched=True, remove_columns="text"
        )
        model = bert("fill-mask", tokenizer) if kind == "bert" else causal(kind, tokenizer)
        losses.append(train(model, tokenizer, rows, tmp_path / name, mlm=kind == "bert"))
    assert len(losses[0]) == 4
    assert losses[0] == losses[1]
    files = {*os.listdir(tmp_path / "ours" / "checkpoint-4")}
    assert {"scaffold.json", "tokenization_scaffold.py", "tokenizer.json", "tokenizer_config.json"} <= files
    loaded = AutoTokenizer.from_pretrained(tmp_path / "ours" / "checkpoint-4")
    assert isinstance(loaded, ScaffoldTokenizerFast)
    tokenizer = both(mask_token="<|mask|>")[0]
    for text in TEXTS:
        assert loaded(text).data == tokenizer(text).data
