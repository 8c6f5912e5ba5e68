"""Models adapted to another tokenizer load in transformers and say of old tokens what they said before."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BertConfig,
    CLIPVisionConfig,
    GPT2Config,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    MarianConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    T5Config,
)

import hf_scaffold as hs
from hf_scaffold.cli import commands

WORDS = ["Arizona", "zone", "banana", "nation", "international", "été", "日本語", "🙂", "hug", "pug"]
OLD_TEXTS = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))]
NEW_TEXTS = [text.replace("zone", "Zonen").replace("nation", "Nationen") for text in OLD_TEXTS]
SPECIALS = {"bos_token": "<|bos|>", "eos_token": "<|endoftext|>", "pad_token": "<|pad|>"}
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SEQ2SEQ = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 64,
}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}

# Class of models, config and its arguments, the tensors with a row for each token, and whether they are tied.
MODELS = {
    "gpt2": (AutoModelForCausalLM, GPT2Config, {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}),
    "llama": (AutoModelForCausalLM, LlamaConfig, {**SMALL, "tie_word_embeddings": False}),
    "qwen2": (AutoModelForCausalLM, Qwen2Config, {**SMALL, "num_key_value_heads": 1}),
    "mistral": (AutoModelForCausalLM, MistralConfig, {**SMALL, "num_key_value_heads": 1, "head_dim": 8}),
    "bert": (AutoModelForMaskedLM, BertConfig, SMALL),
    "bert untied": (AutoModelForMaskedLM, BertConfig, {**SMALL, "tie_word_embeddings": False}),
    "t5": (AutoModelForSeq2SeqLM, T5Config, T5),
    "t5 untied": (AutoModelForSeq2SeqLM, T5Config, {**T5, "tie_word_embeddings": False}),
    "bart": (AutoModelForSeq2SeqLM, BartConfig, SEQ2SEQ),
    "marian": (AutoModelForSeq2SeqLM, MarianConfig, SEQ2SEQ),
}
EMBEDDINGS = {
    "gpt2": {"transformer.wte.weight"},
    "llama": {"model.embed_tokens.weight", "lm_head.weight"},
    "bert": {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"},
    "t5": {"shared.weight"},
    "bart": {"model.shared.weight", "final_logits_bias"},
}


def old_tokenizer():
    plain = hs.train_tokenizer(OLD_TEXTS, 300, special_tokens=[*SPECIALS.values()], scaffold=False)
    return PreTrainedTokenizerFast(tokenizer_object=plain.backend_tokenizer, **SPECIALS)


def new_tokenizer(vocab_size=320, **roles):
    roles = {**SPECIALS, **roles}
    return hs.train_tokenizer(NEW_TEXTS, vocab_size, special_tokens=["<|new|>", *roles.values()], **roles)


def save_model(kind, folder, padding=0, dtype=torch.float32, tokenizer=None, **options):
    """A model with weights that differ everywhere, also where they are zeros or ones by default."""
    auto, config_class, arguments = MODELS[kind]
    tokenizer = tokenizer or old_tokenizer()
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    if auto is AutoModelForSeq2SeqLM:
        ids |= {"decoder_start_token_id": ids["pad_token_id"], "forced_eos_token_id": ids["eos_token_id"]}
    torch.manual_seed(0)
    model = auto.from_config(config_class(**arguments, **ids, vocab_size=len(tokenizer) + padding))
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and tensor.ndim:
                tensor.copy_(torch.randn_like(tensor) * 0.3)
    model.to(dtype).save_pretrained(folder, **options)
    tokenizer.save_pretrained(folder)
    return auto.from_pretrained(folder, dtype=dtype).eval()


def tensors(folder):
    return {name: x for path in sorted(folder.glob("*.safetensors")) for name, x in load_file(path).items()}


def logits(model, ids):
    with torch.no_grad():
        inputs = {"input_ids": ids}
        if model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = ids
        return model(**inputs).logits


def assert_same_model(before, after, remap):
    """Of texts of tokens that both have, both say the same."""
    kept = torch.from_numpy(np.flatnonzero(remap >= 0))
    moved = torch.from_numpy(remap)[kept]
    torch.manual_seed(1)
    ids = torch.randint(len(kept), (2, 12))
    expected = logits(before, kept[ids])[..., kept]
    found = logits(after, moved[ids])[..., moved]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", [0, 21], ids=["", "padded"])
@pytest.mark.parametrize("kind", MODELS)
def test_adapted_models_load_and_say_what_they_said(kind, padding, tmp_path):
    before = save_model(kind, tmp_path / "old", padding)
    new = new_tokenizer()
    new.save_pretrained(tmp_path / "new")
    adapted = hs.adapt(tmp_path / "old", tmp_path / "new", tmp_path / "out", pad_to_multiple_of=64)
    after, info = type(before).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    assert after.config.vocab_size == adapted.n_rows == after.get_input_embeddings().num_embeddings
    assert adapted.n_rows % 64 == 0 <= adapted.n_rows - len(new) < 64
    assert 256 + 3 < adapted.n_kept == len(new) - adapted.n_new < len(new)
    assert_same_model(before, after.eval(), adapted.remap)

    kept, moved = np.flatnonzero(adapted.remap >= 0), adapted.remap[adapted.remap >= 0]
    old, out = tensors(tmp_path / "old"), tensors(tmp_path / "out")
    assert old.keys() == out.keys()
    for name, tensor in old.items():
        if name in adapted.embeddings:
            axis = tensor.shape.index(before.config.vocab_size)
            assert torch.equal(
                out[name].index_select(axis, torch.tensor(moved)),
                tensor.index_select(axis, torch.tensor(kept)),
            )
        else:
            assert torch.equal(out[name], tensor)
    if kind in EMBEDDINGS:
        assert {*adapted.embeddings} == EMBEDDINGS[kind]

    loaded = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(loaded).__name__ == "ScaffoldTokenizerFast"
    assert loaded(NEW_TEXTS)["input_ids"] == new(NEW_TEXTS)["input_ids"]
    for name in ("bos", "eos", "pad"):
        assert getattr(after.config, f"{name}_token_id") == getattr(new, f"{name}_token_id")
    if after.config.is_encoder_decoder:
        assert after.generation_config.decoder_start_token_id == new.pad_token_id
        after.generate(
            **loaded(NEW_TEXTS[:1], return_tensors="pt", return_token_type_ids=False), max_new_tokens=3
        )


def test_sharded_checkpoints_of_bfloat16_are_copied_byte_for_byte(tmp_path):
    before = save_model("llama", tmp_path / "old", dtype=torch.bfloat16, max_shard_size="6KB")
    old_files = {path.name: path.read_bytes() for path in (tmp_path / "old").glob("model-*.safetensors")}
    assert len(old_files) > 2
    adapted = hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    changed = set()
    for name, data in old_files.items():
        if (tmp_path / "out" / name).read_bytes() != data:
            changed |= load_file(tmp_path / "old" / name).keys()
    assert {*adapted.embeddings} <= changed < {*tensors(tmp_path / "old")}
    indices = [
        json.loads((tmp_path / where / "model.safetensors.index.json").read_text())
        for where in ("old", "out")
    ]
    assert indices[0]["weight_map"] == indices[1]["weight_map"]
    out = tensors(tmp_path / "out")
    assert indices[1]["metadata"]["total_size"] == sum(x.nbytes for x in out.values())
    assert indices[1]["metadata"]["total_parameters"] == sum(x.numel() for x in out.values())
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.bfloat16).eval()
    assert after.lm_head.weight.dtype == torch.bfloat16
    assert_same_model(before, after, adapted.remap)


def test_the_file_is_what_safetensors_writes(tmp_path):
    """A model adapted to its own tokenizer is the same model, byte for byte."""
    save_model("gpt2", tmp_path / "old")
    adapted = hs.adapt(tmp_path / "old", tmp_path / "old", tmp_path / "out")
    assert (adapted.n_new, adapted.changed_ids) == (0, {})
    for name in ("model.safetensors", "config.json", "generation_config.json", "tokenizer.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "old" / name).read_bytes(), name


# ---- new rows


def rows_of(folder, name="model.embed_tokens.weight"):
    return tensors(folder)[name].double()


def test_new_rows_are_the_mean_of_the_old_pieces(tmp_path):
    save_model("llama", tmp_path / "old", padding=5)
    old, new = old_tokenizer(), new_tokenizer()
    adapted = hs.adapt(tmp_path / "old", new, tmp_path / "out", pad_to_multiple_of=16)
    n_several = 0
    for name in adapted.embeddings:
        before, after = rows_of(tmp_path / "old", name), rows_of(tmp_path / "out", name)
        for token_id in new.get_vocab().values():
            if token_id not in adapted.remap:
                pieces = old.backend_tokenizer.encode(new.decode([token_id]), add_special_tokens=False).ids
                torch.testing.assert_close(after[token_id], before[pieces].mean(0), rtol=1e-6, atol=1e-7)
                n_several += len(pieces) > 1
        mean = before[np.flatnonzero(adapted.remap >= 0)].mean(0)
        assert adapted.n_rows > len(new)
        for row in after[len(new) :]:
            torch.testing.assert_close(row, mean, rtol=1e-6, atol=1e-7)
    assert n_several > 5


def test_demolished_tokens_that_come_back_are_made_of_their_pieces(tmp_path):
    scaffold = hs.train_tokenizer(NEW_TEXTS, 275, **SPECIALS)
    plain = hs.train_tokenizer(NEW_TEXTS, 275, scaffold=False, **SPECIALS)
    demolished = {*plain.get_vocab()} & {*scaffold.scaffold["demolish"]}
    assert demolished
    save_model("llama", tmp_path / "old", tokenizer=scaffold)
    hs.adapt(tmp_path / "old", plain, tmp_path / "out")
    before, after = rows_of(tmp_path / "old"), rows_of(tmp_path / "out")
    for token in demolished:
        token_id = plain.convert_tokens_to_ids(token)
        pieces = scaffold(plain.decode([token_id]), add_special_tokens=False)["input_ids"]
        assert len(pieces) > 1
        torch.testing.assert_close(after[token_id], before[pieces].mean(0), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("init", ["mean", "normal", "random", "zeros"])
def test_other_ways_to_new_rows(init, tmp_path):
    save_model("bert", tmp_path / "old")
    new = new_tokenizer()
    adapted = hs.adapt(tmp_path / "old", new, tmp_path / "out", init=init)
    again = hs.adapt(tmp_path / "old", new, tmp_path / "again", init=init)
    other = hs.adapt(tmp_path / "old", new, tmp_path / "other", init=init, seed=1)
    fresh = torch.tensor([i for i in range(len(new)) if i not in adapted.remap])
    for name in adapted.embeddings:
        old, rows = (rows_of(tmp_path / where, name) for where in ("old", "out"))
        assert torch.equal(rows, rows_of(tmp_path / "again", name))
        drawn = init == "normal" or (init == "random" and rows.ndim == 2)
        assert torch.equal(rows, rows_of(tmp_path / "other", name)) != drawn
        rows = rows[fresh]
        if init in ("mean", "normal"):
            assert (rows - old.mean(0)).abs().max() < 1e-4
        elif init == "random" and rows.ndim == 2:
            assert rows.mean().abs() < 0.01
            assert 0.015 < rows.std() < 0.025  # BertConfig's initializer_range is 0.02
        else:
            assert not rows.any()
    assert again.n_new == other.n_new == len(fresh)


def test_drawn_rows_are_those_of_the_covariance(tmp_path):
    """Hewitt's way, at 1e-9 of the covariance: seen in float64, where it isn't lost."""
    save_model("llama", tmp_path / "old", dtype=torch.float64)
    new = old_tokenizer()
    new.add_tokens([f"<{i}>" for i in range(4000)])
    hs.adapt(tmp_path / "old", new, tmp_path / "out", init="normal")
    before, rows = rows_of(tmp_path / "old"), rows_of(tmp_path / "out")[300:]
    assert len(rows) == 4000
    expected, found = torch.cov(before.T), torch.cov(rows.T) / 1e-9
    assert (found - expected).abs().max() < 0.15 * expected.abs().max()
    assert (rows.mean(0) - before.mean(0)).abs().max() < 1e-6


def test_tied_tensors_that_are_saved_twice_stay_equal(tmp_path):
    from safetensors.torch import save_file

    save_model("gpt2", tmp_path / "old")
    saved = tensors(tmp_path / "old")
    saved["lm_head.weight"] = saved["transformer.wte.weight"].clone()
    save_file(saved, tmp_path / "old" / "model.safetensors", metadata={"format": "pt"})
    for init in ("normal", "random"):
        adapted = hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / init, init=init)
        assert {*adapted.embeddings} == {"lm_head.weight", "transformer.wte.weight"}
        out = tensors(tmp_path / init)
        assert torch.equal(out["lm_head.weight"], out["transformer.wte.weight"])


def test_a_token_that_takes_over_a_role_takes_its_row_and_its_ids(tmp_path):
    save_model("llama", tmp_path / "old")
    path = tmp_path / "old" / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [1, 7], "suppress_tokens": [1, 5, 299]}))
    new = new_tokenizer(eos_token="<|end|>")
    adapted = hs.adapt(tmp_path / "old", new, tmp_path / "out")
    before, after = rows_of(tmp_path / "old"), rows_of(tmp_path / "out")
    assert torch.equal(after[new.eos_token_id], before[1])
    assert json.loads((tmp_path / "out" / "config.json").read_text())["eos_token_id"] == new.eos_token_id
    generation = json.loads((tmp_path / "out" / path.name).read_text())
    assert generation["eos_token_id"] == [new.eos_token_id, adapted.remap[7]]
    assert generation["suppress_tokens"][:2] == [new.eos_token_id, adapted.remap[5]]
    assert adapted.changed_ids["config.json: eos_token_id"] == (1, new.eos_token_id)


# ---- checkpoints that are not as the model is


def test_names_with_another_prefix_are_found(tmp_path):
    """As in checkpoints of a model's base class, such as that of GPT-2 on the Hub."""
    from safetensors.torch import save_file

    before = save_model("gpt2", tmp_path / "old")
    saved = {name.removeprefix("transformer."): x for name, x in tensors(tmp_path / "old").items()}
    save_file(saved, tmp_path / "old" / "model.safetensors", metadata={"format": "pt"})
    adapted = hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    assert adapted.embeddings == ("wte.weight",)
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert_same_model(before, after, adapted.remap)


def edit(folder, change):
    from safetensors.torch import save_file

    saved = tensors(folder)
    change(saved)
    save_file(saved, folder / "model.safetensors", metadata={"format": "pt"})


def test_embeddings_that_cannot_be_found_are_named(tmp_path):
    before = save_model("llama", tmp_path / "old")
    n = before.config.vocab_size
    edit(tmp_path / "old", lambda saved: saved.update({"extra.table": torch.zeros(n, 2)}))
    with pytest.raises(hs.ConfigurationError, match=r"extra\.table has 300 rows.*embedding_names"):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    edit(tmp_path / "old", lambda saved: [saved.pop("extra.table"), saved.pop("lm_head.weight")])
    with pytest.raises(hs.ConfigurationError, match=r"lm_head\.weight is in no file.*embedding_names"):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    edit(tmp_path / "old", lambda saved: saved.update({"head.w": torch.ones(n, 16)}))
    with pytest.raises(hs.ConfigurationError, match=r"head\.w has 300 rows"):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    with pytest.raises(hs.ConfigurationError, match=r"'heads\.w', which is in no file"):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out", embedding_names=["heads.w"])
    with pytest.raises(
        hs.ConfigurationError, match=r"model\.norm\.weight has the shape \[16\], without 300 rows"
    ):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out", embedding_names=["model.norm.weight"])
    assert not (tmp_path / "out").exists()
    names = ["model.embed_tokens.weight", "head.w"]
    adapted = hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out", embedding_names=names)
    assert tensors(tmp_path / "out")["head.w"].shape == (adapted.n_rows, 16)


def test_models_of_code_beside_them_are_adapted_by_name(tmp_path):
    save_model("llama", tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    config = json.loads(path.read_text()) | {"model_type": "mine", "architectures": ["Mine"]}
    config["auto_map"] = {"AutoConfig": "mine.Config"}
    path.write_text(json.dumps(config))
    (tmp_path / "old" / "mine.py").write_text("raise SystemExit('was run')")
    new = new_tokenizer()
    with pytest.raises(hs.ConfigurationError, match=r"doesn't know the model 'mine'.*embedding_names"):
        hs.adapt(tmp_path / "old", new, tmp_path / "out", old_tokenizer=old_tokenizer())
    names = ["model.embed_tokens.weight", "lm_head.weight"]
    adapted = hs.adapt(
        tmp_path / "old", new, tmp_path / "out", old_tokenizer=old_tokenizer(), embedding_names=names
    )
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["vocab_size"], config["eos_token_id"]) == (adapted.n_rows, new.eos_token_id)
    assert (tmp_path / "out" / "mine.py").is_file()


@pytest.mark.parametrize("name", ["lm_head.weight", "model.embed_tokens.weight"])
def test_quantized_embeddings_are_refused(name, tmp_path):
    save_model("llama", tmp_path / "old")
    edit(tmp_path / "old", lambda saved: saved.update({name: saved[name].to(torch.int8)}))
    with pytest.raises(hs.ConfigurationError, match=f"{name} is I8.*quantized"):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    edit(tmp_path / "old", lambda saved: saved.update({name: saved[name][:, :8].clone()}))
    with pytest.raises(hs.ConfigurationError, match=rf"{name} is I8 \[300, 8\].*\[300, 16\]; quantized"):
        hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")


def test_other_files_are_copied_and_those_of_the_old_tokenizer_are_not(tmp_path):
    save_model("llama", tmp_path / "old")
    for name in (
        "README.md",
        "preprocessor_config.json",
        "chat_template.jinja",
        "merges.txt",
        "model.gguf",
        ".x",
    ):
        (tmp_path / "old" / name).write_text("{}")
    (tmp_path / "out").mkdir()
    for name in (
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
        "special_tokens_map.json",
    ):
        (tmp_path / "out" / name).write_text("{}")
    new = new_tokenizer()
    new.save_pretrained(tmp_path / "new")
    hs.adapt(tmp_path / "old", new, tmp_path / "out")
    tokenizers = {path.name for path in (tmp_path / "new").iterdir()}
    others = {"README.md", "preprocessor_config.json"}
    weights = {"config.json", "generation_config.json", "model.safetensors"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == tokenizers | others | weights


def test_what_fails_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    save_model("llama", tmp_path / "old")
    hs.adapt(tmp_path / "old", new_tokenizer(), tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def stop(done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.adapt(tmp_path / "old", old_tokenizer(), tmp_path / "out", show_progress=stop)
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    with pytest.raises(KeyboardInterrupt):
        hs.adapt(tmp_path / "old", old_tokenizer(), tmp_path / "another", show_progress=stop)
    assert not (tmp_path / "another").exists()


# ---- on the command line


def test_the_command_shows_what_changed(tmp_path, capsys):
    save_model("bert", tmp_path / "old", padding=3)
    new = new_tokenizer()
    new.save_pretrained(tmp_path / "new")
    arguments = ["adapt", tmp_path / "old", "-t", tmp_path / "new", "-o", tmp_path / "out"]
    arguments += ["--pad-to-multiple-of", 8, "--init", "mean"]
    assert commands.main([*map(str, arguments)]) == 0
    adapted = hs.adapt(tmp_path / "old", new, tmp_path / "same", pad_to_multiple_of=8, init="mean")
    shown = capsys.readouterr().out
    names = "bert.embeddings.word_embeddings.weight, cls.predictions.bias"
    assert f"{adapted.n_rows} in each of {names}\n" in shown
    assert f"{adapted.n_kept} kept, {adapted.n_new} new, {adapted.n_gone} gone\n" in shown
    assert adapted.n_kept + adapted.n_gone == len(old_tokenizer())
    assert f"config.json: eos_token_id  1 → {new.eos_token_id}\n" in shown
    for name, tensor in tensors(tmp_path / "same").items():
        assert torch.equal(tensor, tensors(tmp_path / "out")[name])


def test_the_command_names_its_options(tmp_path, capsys):
    save_model("llama", tmp_path / "old")
    edit(tmp_path / "old", lambda saved: saved.update({"extra.table": torch.zeros(300, 2)}))
    new_tokenizer().save_pretrained(tmp_path / "new")
    arguments = ["adapt", tmp_path / "old", "-t", tmp_path / "new", "-o", tmp_path / "out"]
    assert commands.main([*map(str, arguments)]) == 2
    assert "name all tensors with a row for each token in --embedding-name\n" in capsys.readouterr().err
    arguments += ["--embedding-name", "lm_head.weight", "--embedding-name", "model.embed_tokens.weight"]
    assert commands.main([*map(str, arguments)]) == 0
    assert capsys.readouterr().err == ""


# ---- models of text and images


def test_ids_and_sizes_of_a_multimodal_model_are_in_several_places(tmp_path):
    old = old_tokenizer()
    old.add_special_tokens({"extra_special_tokens": ["<image>"]})
    image = old.convert_tokens_to_ids("<image>")
    ids = {f"{name}_token_id": getattr(old, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    vision = {**SMALL, "image_size": 8, "patch_size": 4, "projection_dim": 8}
    config = LlavaConfig(
        text_config=LlamaConfig(**SMALL, **ids, vocab_size=len(old)),
        vision_config=CLIPVisionConfig(**vision),
        image_token_index=image,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    before = LlavaForConditionalGeneration(config).eval()
    before.save_pretrained(tmp_path / "old")
    old.save_pretrained(tmp_path / "old")
    new = new_tokenizer()
    new.add_special_tokens({"extra_special_tokens": ["<image>"]})
    adapted = hs.adapt(tmp_path / "old", new, tmp_path / "out", pad_to_multiple_of=8)
    assert len(adapted.embeddings) == 2
    after, info = LlavaForConditionalGeneration.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    assert after.config.text_config.vocab_size == adapted.n_rows
    assert after.config.text_config.eos_token_id == new.eos_token_id
    assert after.config.image_token_id == new.convert_tokens_to_ids("<image>") != image
    remap = adapted.remap.copy()
    remap[image] = -1  # which the model looks for an image for
    assert_same_model(before, after.eval(), remap)
