"""transformers' pipelines give with our tokenizer what they give with stock's."""

import pytest
import torch
from test_interface import LONG, MESSAGES, PAIR, TEXT, both
from tiny import CAUSAL, bert, causal
from transformers import pipeline

MASKED = ["zona <|mask|> bana téz", "ernat bana<|mask|>"]


def run(task, model, tokenizer, *arguments, **options):
    torch.manual_seed(1)
    return pipeline(task, model=model, tokenizer=tokenizer, device="cpu")(*arguments, **options)


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("inputs", [TEXT, [TEXT, LONG], MESSAGES, [MESSAGES, MESSAGES[:1]]])
def test_text_generation(kind, inputs):
    options = {"max_new_tokens": 6, "do_sample": True, "batch_size": 2}
    ours, stock = (
        run("text-generation", causal(kind, tokenizer), tokenizer, inputs, **options)
        for tokenizer in both(padding_side="left")
    )
    assert ours == stock
    if inputs is TEXT:
        assert ours[0]["generated_text"].startswith(TEXT)


def with_mask(**options):
    tokenizers = both(mask_token="<|mask|>", **options)
    assert {tokenizer.mask_token_id for tokenizer in tokenizers} == {len(tokenizers[0]) - 1}
    return tokenizers


@pytest.mark.parametrize("options", [{}, {"top_k": 2, "targets": ["z", "é", "zona", " bana"]}])
def test_fill_mask(options):
    ours, stock = (
        run("fill-mask", bert("fill-mask", tokenizer), tokenizer, MASKED, **options)
        for tokenizer in with_mask()
    )
    assert ours == stock
    assert all("<|mask|>" not in filled["sequence"] for fills in ours for filled in fills)


@pytest.mark.parametrize("template", ["bos and eos", "roberta", "trimmed offsets"])
@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
def test_token_classification(strategy, template):
    """Pieces of a demolished token are aggregated through their offsets and word ids."""
    ours, stock = (
        run(
            "token-classification",
            bert("token-classification", tokenizer),
            tokenizer,
            [TEXT, "ationa zona"],
            aggregation_strategy=strategy,
        )
        for tokenizer in both(post_processor=template)
    )
    assert repr(ours) == repr(stock)
    for entity in ours[1] if strategy != "none" else []:
        assert entity["word"].strip() == "ationa zona"[entity["start"] : entity["end"]].strip()


def test_token_classification_of_a_long_text_in_windows():
    ours, stock = (
        pipeline(
            "token-classification",
            model=bert("token-classification", tokenizer),
            tokenizer=tokenizer,
            aggregation_strategy="simple",
            stride=4,
            device="cpu",
        )(LONG)
        for tokenizer in both(model_max_length=24, post_processor="roberta")
    )
    assert repr(ours) == repr(stock)
    assert max(entity["end"] for entity in ours) == len(LONG)


@pytest.mark.parametrize("inputs", [TEXT, [TEXT, LONG, ""], {"text": TEXT, "text_pair": PAIR}])
def test_text_classification(inputs):
    ours, stock = (
        run("text-classification", bert("text-classification", tokenizer), tokenizer, inputs, top_k=None)
        for tokenizer in both()
    )
    assert ours == stock


def test_zero_shot_classification():
    ours, stock = (
        run(
            "zero-shot-classification",
            bert("text-classification", tokenizer),
            tokenizer,
            [TEXT, "ationa"],
            candidate_labels=["zona", "bana"],
            hypothesis_template="ernat {}",
        )
        for tokenizer in both()
    )
    assert ours == stock


def test_feature_extraction():
    ours, stock = (
        run("feature-extraction", bert("fill-mask", tokenizer).bert, tokenizer, [TEXT, LONG])
        for tokenizer in both()
    )
    assert ours == stock
