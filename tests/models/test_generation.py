"""Tiny language models generate from our ids what they generate from stock's, and it decodes as stock's."""

from threading import Thread

import pytest
import torch
from test_interface import LONG, MESSAGES, PAIR, TEXT, both
from tiny import CAUSAL, causal
from transformers import TextIteratorStreamer, TextStreamer

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

PROMPTS = [TEXT, PAIR, LONG]


@pytest.fixture(params=CAUSAL)
def model(request):
    return causal(request.param, both()[0])


def generated(model, inputs, **options):
    torch.manual_seed(1)
    return model.generate(**inputs, **{"max_new_tokens": 12, "do_sample": True, **options})


def test_batches_are_continued_as_stocks(model):
    found = []
    for tokenizer in both(padding_side="left"):
        inputs = tokenizer(PROMPTS, padding=True, return_tensors="pt")
        ids = generated(model, inputs)
        assert ids.max() < len(tokenizer)
        found.append([ids.tolist(), tokenizer.batch_decode(ids, skip_special_tokens=True)])
    assert found[0] == found[1]
    assert all(text.startswith(prompt[:5]) for text, prompt in zip(found[0][1], PROMPTS, strict=True))


def test_chats_are_answered_as_stocks(model):
    found = []
    for tokenizer in both():
        inputs = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, return_tensors="pt")
        ids = generated(model, inputs)
        found.append(tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :]))
    assert found[0] == found[1] != ""


@pytest.mark.parametrize("options", [{}, {"skip_special_tokens": True}])
def test_what_is_streamed_is_what_is_generated(model, options, capsys):
    for tokenizer in both():
        inputs = tokenizer(TEXT, add_special_tokens=False, return_tensors="pt")
        ids = generated(model, inputs)
        expected = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], **options)
        generated(model, inputs, streamer=TextStreamer(tokenizer, skip_prompt=True, **options))
        assert capsys.readouterr().out == expected + "\n"
        streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=60, **options)
        thread = Thread(target=generated, args=(model, inputs), kwargs={"streamer": streamer})
        thread.start()
        assert "".join(streamer) == expected
        thread.join()


def test_generation_ends_at_a_string_that_spans_tokens(model):
    found = []
    for tokenizer in both():
        inputs = tokenizer(TEXT, add_special_tokens=False, return_tensors="pt")
        halves = [i for i in range(len(tokenizer)) if not tokenizer.decode(i).isascii()]
        whole = generated(model, inputs, suppress_tokens=halves)[0, inputs["input_ids"].shape[1] :]
        stop = tokenizer.decode(whole[4:7])
        options = {"suppress_tokens": halves, "stop_strings": [stop], "tokenizer": tokenizer}
        ids = generated(model, inputs, **options)
        text = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :])
        assert stop in text
        assert ids.shape[1] <= inputs["input_ids"].shape[1] + 7
        found.append([stop, text])
    assert found[0] == found[1]


def test_prompts_are_healed_as_stocks(model):
    found = []
    for tokenizer in both(post_processor="none"):
        inputs = tokenizer("zona ern", return_tensors="pt")
        ids = generated(model, inputs, token_healing=True, tokenizer=tokenizer, do_sample=False)
        found.append(ids.tolist())
    assert found[0] == found[1]


def test_a_model_grows_with_its_tokenizer(model, tmp_path):
    tokenizer = both()[0]
    before = len(tokenizer)
    tokenizer.add_tokens(["zonazona", "<|tool|>"])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    assert model.get_input_embeddings().num_embeddings == before + 2
    ids = tokenizer("zonazona<|tool|> zona", return_tensors="pt")["input_ids"]
    assert {before, before + 1} <= {*ids[0].tolist()}
    logits = model(ids).logits
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    ids = ScaffoldTokenizerFast.from_pretrained(tmp_path)("zonazona<|tool|> zona", return_tensors="pt")
    assert torch.equal(loaded.eval()(ids["input_ids"]).logits, logits)
