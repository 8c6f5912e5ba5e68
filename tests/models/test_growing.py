"""A model grows with its tokenizer, or shrinks with its Scaffold version."""

import numpy as np
import torch
import toys
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import hf_scaffold as hs


def test_embeddings_grow_with_the_tokenizer():
    tokenizer = toys.tokenizer()
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=1, n_positions=32)
    model = GPT2LMHeadModel(config).eval()
    before = model.get_input_embeddings().weight.detach().clone()
    text = tokenizer("Arizona zona", return_tensors="pt")
    logits = model(**text).logits

    assert tokenizer.add_tokens(["zona"]) + tokenizer.add_special_tokens({"sep_token": "<|sep|>"}) == 2
    resized = model.resize_token_embeddings(len(tokenizer))

    assert resized.num_embeddings == model.config.vocab_size == len(before) + 2
    assert torch.equal(resized.weight[:-2], before)
    assert torch.allclose(model(**text).logits[..., :-2], logits)
    grown = tokenizer("Arizona zona<|sep|>", return_tensors="pt")
    assert grown["input_ids"][0, -2:].tolist() == [len(before), len(before) + 1]
    assert model(**grown, labels=grown["input_ids"]).loss.isfinite()


def test_an_embedding_matrix_is_compacted_in_two_lines(english_text):
    plain = hs.train_tokenizer([english_text], 1000, scaffold=False)
    stock = PreTrainedTokenizerFast(tokenizer_object=plain.backend_tokenizer)
    conversion = hs.convert_tokenizer(stock, [english_text], compact=True)
    embeddings = torch.nn.Embedding(1000, 3)
    before = embeddings.weight.detach().clone()
    kept = torch.from_numpy(np.flatnonzero(conversion.remap >= 0))
    embeddings.weight = torch.nn.Parameter(embeddings.weight[kept])
    assert len(embeddings.weight) == len(conversion.tokenizer) < 1000
    old_id = plain.convert_tokens_to_ids("Ġthe")
    assert torch.equal(embeddings.weight[conversion.remap[old_id]], before[old_id])
