"""What can't be adapted is refused before anything is written; tests/models adapts what can be."""

import importlib
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import hf_scaffold as hs
from hf_scaffold.adapting import adapting
from hf_scaffold.adapting.checkpoints import INDEX, WEIGHTS


@pytest.fixture(scope="module")
def tokenizer():
    return hs.train_tokenizer(["Arizona zone banana"] * 9, 260, eos_token="<eos>")


@pytest.fixture
def model(tokenizer, tmp_path):
    folder = tmp_path / "model"
    tokenizer.save_pretrained(folder)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": len(tokenizer)}
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"model.embed_tokens.weight": np.zeros((len(tokenizer), 4), np.float32)}, folder / WEIGHTS)
    return folder


@pytest.fixture
def refused(tmp_path):
    def refused(model, tokenizer, message, error=hs.ConfigurationError, **options):
        with pytest.raises(error, match=message):
            hs.adapt(model, tokenizer, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()

    return refused


def test_arguments_that_cannot_be(model, tokenizer, refused):
    refused(model, tokenizer, "init is the string 'piece'; choose from pieces, mean", init="piece")
    refused(model, tokenizer, "pad_to_multiple_of is 0; it must be at least 1", pad_to_multiple_of=0)
    refused(model, tokenizer, "seed must be a whole number", TypeError, seed="1")
    refused(model, tokenizer, "embedding_names must be a list", TypeError, embedding_names="lm_head.weight")
    refused(model, tokenizer, "Did you mean 'pad_to_multiple_of'", TypeError, pad_to_multiple=8)
    refused(model, tokenizer, "show_progress must be True, False or a function", TypeError, show_progress=3)


def test_folders_that_cannot_be(model, tokenizer, refused, tmp_path):
    refused(tmp_path / "none", tokenizer, "none", NotADirectoryError)
    with pytest.raises(hs.ConfigurationError, match="output_dir is the model's own folder"):
        hs.adapt(model, tokenizer, model / ".." / "model")
    with pytest.raises(NotADirectoryError):
        hs.adapt(model, tokenizer, model / "config.json" / "out")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5", "consolidated.00.pth", "x.gguf"])
def test_other_formats_are_to_be_converted(name, model, tokenizer, refused):
    (model / WEIGHTS).rename(model / name)
    refused(model, tokenizer, rf"has {name}, but no model\.safetensors; convert it first")


def test_a_model_without_weights(model, tokenizer, refused):
    (model / WEIGHTS).unlink()
    refused(model, tokenizer, f"has no {WEIGHTS}, nor {INDEX}")


def test_configs_that_are_malformed(model, tokenizer, refused):
    for content, message in (("{", "not valid JSON"), ("[]", "holds no JSON object")):
        (model / "config.json").write_text(content)
        refused(model, tokenizer, message, hs.ArtifactError)
    (model / "config.json").unlink()
    refused(model, tokenizer, r"config\.json", FileNotFoundError)


def test_a_model_without_its_tokenizer(model, tokenizer, refused, tmp_path):
    (model / "tokenizer.json").unlink()
    refused(model, tokenizer, "has no tokenizer; give its folder or name as old_tokenizer")
    (tmp_path / "empty").mkdir()
    refused(model, tmp_path / "empty", "give its folder or name as tokenizer", old_tokenizer=tokenizer)


def test_a_model_smaller_than_its_tokenizer(model, tokenizer, refused):
    larger = hs.train_tokenizer(["Arizona zone banana"] * 9, 262, eos_token="<eos>")
    refused(
        model, tokenizer, "the model has 260 rows, but its tokenizer has ids up to 261", old_tokenizer=larger
    )


def test_tokenizers_that_cannot_be(model, tokenizer, refused, tmp_path):
    bpe = hs.train(hs.count(["Arizona zone banana"] * 9), 258)
    bpe.save(tmp_path / "artifact")
    refused(model, tmp_path / "artifact", "is an artifact, whose vocab.json gives scaffold tokens ids")
    refused(model, bpe, "tokenizer must be a fast tokenizer of transformers.*not a ScaffoldBPE")
    refused(model, tokenizer, "old_tokenizer must be a fast", old_tokenizer=3)


def test_without_torch_it_says_what_to_install(model, tokenizer, refused, monkeypatch):
    def without_torch(name, *rest):
        if name == "torch":
            raise ImportError(name)
        return real(name, *rest)

    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", without_torch)
    names = ["model.embed_tokens.weight"]
    for options in ({}, {"embedding_names": names}):
        refused(model, tokenizer, r"torch: pip install 'hf_scaffold\[adapt\]'", **options)


def test_an_id_of_a_token_that_is_gone(model, tokenizer, refused):
    config = json.loads((model / "config.json").read_text()) | {"forced_token_id": 259}
    (model / "config.json").write_text(json.dumps(config))
    plain = hs.train_tokenizer(["hug pug"] * 9, 259, eos_token="<eos>")
    configs = adapting._Model.read(model)
    old, new = adapting.Tokens.of(tokenizer), adapting.Tokens.of(plain)
    moves = adapting.Moves(old, new, adapting.match_tokens(old, new))
    with pytest.raises(hs.ConfigurationError, match=r"config\.json has '.+' as its forced_token_id, 259"):
        configs.adapt(moves, 259)
