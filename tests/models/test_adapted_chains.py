"""A model of a published shape goes along with a chain of changes to its tokenizer."""

import numpy as np
import pytest
import shapes
import tiny
import torch
from chains import CHAINS, names
from transformers import AutoModelForCausalLM, AutoTokenizer

import hf_scaffold as hs


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("chain", CHAINS, ids=names)
@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_what_both_tokenizers_have_stays_as_it_was(shape, chain, tmp_path):
    old = shapes.SHAPES[shape]()
    before = tiny.causal("llama", old)
    before.save_pretrained(tmp_path / "old")
    old.save_pretrained(tmp_path / "old")
    new, remap = old, np.arange(len(old))
    for step in chain:
        new, moved = step(new)
        remap = np.where(remap < 0, -1, moved[remap])
    adapted = hs.adapt(tmp_path / "old", new, tmp_path / "new")

    vocab = new.get_vocab()
    assert adapted.remap.tolist() == [vocab.get(old.convert_ids_to_tokens(i), -1) for i in range(len(old))]
    assert adapted.remap[remap >= 0].tolist() == remap[remap >= 0].tolist()
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "new")
    kept = torch.from_numpy(np.flatnonzero(adapted.remap >= 0))
    places = torch.from_numpy(adapted.remap)[kept]
    assert torch.equal(
        after.get_input_embeddings().weight[places], before.get_input_embeddings().weight[kept]
    )
    assert torch.equal(
        after.get_output_embeddings().weight[places], before.get_output_embeddings().weight[kept]
    )
    for role in ("bos", "eos", "pad"):
        assert getattr(after.config, f"{role}_token_id") == getattr(new, f"{role}_token_id")

    loaded = AutoTokenizer.from_pretrained(tmp_path / "new")
    texts = shapes.text()[-20_000:].split(" ")
    n_same = 0
    for was, now in zip(old(texts)["input_ids"], loaded(texts)["input_ids"], strict=True):
        if was and adapted.remap[was].tolist() == now and n_same < 20:
            torch.testing.assert_close(logits(after, now)[:, places], logits(before, was)[:, kept])
            n_same += 1
    assert n_same == 20
