"""Batches of torch tensors: as stock's, through the native encoder and without it."""

import pytest
import torch
from test_interface import LONG, PAIR, TEXT, both

CALLS = {
    "one": lambda t: t(TEXT, return_tensors="pt"),
    "padded": lambda t: t([TEXT, LONG], padding=True, return_tensors="pt", return_special_tokens_mask=True),
    "pairs": lambda t: t([TEXT, LONG], [PAIR, TEXT], padding=True, padding_side="left", return_tensors="pt"),
    "truncated": lambda t: t([TEXT, LONG], truncation=True, max_length=7, return_tensors="pt"),
    "chat": lambda t: t.apply_chat_template([{"role": "user", "content": TEXT}], return_tensors="pt"),
    "offsets": lambda t: t(TEXT, return_tensors="pt", return_offsets_mapping=True),
}


@pytest.mark.parametrize("call", CALLS)
def test_tensors_are_stocks(call, native):
    ours, stock = both()
    ours.native = native
    found, expected = CALLS[call](ours), CALLS[call](stock)
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


def test_rows_of_different_length_are_refused_in_stocks_words():
    messages = []
    for tokenizer in both():
        with pytest.raises(ValueError, match="padding=True") as error:
            tokenizer([TEXT, LONG], return_tensors="pt")
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_batches_move_between_devices_and_dtypes():
    for tokenizer in both():
        batch = tokenizer([TEXT, LONG], padding=True, return_tensors="pt").to("cpu", non_blocking=True)
        assert batch["input_ids"].device == torch.device("cpu")
        assert batch.to(torch.device("meta"))["attention_mask"].is_meta


def test_tensors_are_decoded():
    for tokenizer in both():
        batch = tokenizer([TEXT, LONG], padding=True, return_tensors="pt")
        assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == [TEXT, LONG]
        assert tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True) == TEXT
