"""Baselines are what their trainers make of the text, lose nothing and can be saved; anyone's can be read."""

import base64
import io
import json
from collections import Counter

import numpy as np
import pytest
import sentencepiece
import tiktoken
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError, VocabSizeError
from hf_scaffold.evaluation import baselines
from hf_scaffold.evaluation.tables import METRICS
from hf_scaffold.text.byte_level import bytes_to_symbols, symbols_to_bytes
from hf_scaffold.text.presets import GPT4O_PATTERN

VOCAB_SIZE = 1200
NASTY = "  The cat's\ttail… 12,345 naïve\r\n\n日本 🙂\u00a0## …x \x00 ▁y  "
SENTENCEPIECE = [kind for kind in hs.BASELINES if kind.startswith("sentencepiece")]


@pytest.fixture(scope="module")
def novel(english_text):
    return english_text[:120_000]


@pytest.fixture(scope="module")
def held_out(english_text):
    return english_text[300_000:340_000]


@pytest.fixture(scope="module")
def counts(novel):
    return hs.count([novel])


@pytest.fixture(scope="module")
def trained(counts, novel):
    text = hs.EvaluationText([novel])
    return {
        kind: hs.train_baseline(kind, counts, VOCAB_SIZE, special_tokens=["<|endoftext|>"], corpus=text)
        for kind in hs.BASELINES
    }


@pytest.mark.parametrize("kind", hs.BASELINES)
def test_the_vocabulary_is_as_large_as_asked_for(trained, kind):
    tokenizer = trained[kind]
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    assert len(tokenizer) == VOCAB_SIZE
    assert sorted(tokenizer.get_vocab().values()) == list(range(VOCAB_SIZE))
    assert tokenizer("a<|endoftext|>")["input_ids"][-1] == tokenizer.convert_tokens_to_ids("<|endoftext|>")


@pytest.mark.parametrize("kind", hs.BASELINES)
def test_no_text_is_unknown_or_lost(trained, kind, held_out):
    tokenizer = trained[kind]
    for text in (NASTY, held_out):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id is None or tokenizer.unk_token_id not in ids
        # The one thing that SentencePiece can't tell apart.
        expected = text.replace("▁", " ") if kind in SENTENCEPIECE else text
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == expected


@pytest.mark.parametrize("kind", hs.BASELINES)
def test_a_saved_one_encodes_alike(trained, kind, held_out, tmp_path):
    trained[kind].save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded(held_out)["input_ids"] == trained[kind](held_out)["input_ids"]
    assert loaded.decode(loaded(NASTY)["input_ids"]) == trained[kind].decode(
        trained[kind](NASTY)["input_ids"]
    )
    if kind in ("trimmed", "residue", "picky"):
        return  # tokenizer.json alone is their raw-safe model
    by_path = hs.load_tokenizer(tmp_path / "tokenizer.json")
    assert by_path.encode(held_out).ids == loaded(held_out)["input_ids"]


def test_bpe_is_ours_without_scaffolds(trained, counts, held_out):
    plain = hs.train(counts, VOCAB_SIZE, special_tokens=["<|endoftext|>"], scaffold=False)
    assert trained["bpe"](held_out)["input_ids"] == plain.to_tokenizer()(held_out)["input_ids"]


def test_trainers_are_fed_each_pretoken_as_often_as_it_is_counted(counts, monkeypatch):
    monkeypatch.setattr(baselines, "_CHUNK", 1000)
    texts = list(baselines._repeated(counts))
    assert Counter(word for text in texts for word in text.split()) == {
        bytes_to_symbols(pretoken): n for pretoken, n in counts.items()
    }
    assert max(map(len, texts)) < 2000


def test_wordpiece_equals_training_on_the_text():
    # Words without ties between merges, so that the order of the trainer's hash tables decides nothing.
    words = {"hug": 40, "pug": 21, "pun": 13, "bun": 7, "hugs": 3}
    text = " ".join(" ".join([word] * n) for word, n in words.items())
    stock = Tokenizer(models.WordPiece(unk_token="<unk>"))
    stock.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    stock.train_from_iterator(
        [text], trainers.WordPieceTrainer(continuing_subword_prefix="…", show_progress=False)
    )
    ours = hs.train_baseline("wordpiece", hs.PreTokenCounts.from_mapping(words), 600)
    learned = {token for token in ours.get_vocab() if len(token.removeprefix("…")) > 1} - {"<unk>"}
    assert learned == {token for token in stock.get_vocab() if len(token.removeprefix("…")) > 1}
    assert {"hug", "pug", "pun", "bun", "hugs"} <= learned


def test_unigram_takes_whole_words_for_tokens():
    # Only "hug" begins a longer word; by itself the trainer would know no other whole word.
    words = {" hippopotamus": 60, " crocodile": 50, " hug": 40, " hugs": 30, " once": 1}
    counts = hs.PreTokenCounts.from_mapping(words)
    tokenizer = hs.train_baseline("unigram", counts, 264)
    for word in (" hippopotamus", " crocodile", " hug", " hugs"):
        assert tokenizer.tokenize(word) == [bytes_to_symbols(word.encode())]
    assert not {"\ue000", "\ue001"} & set("".join(tokenizer.get_vocab()))


def test_unigram_is_no_worse_than_sentencepieces(trained, novel, held_out):
    for text in (novel, held_out):
        ours, theirs = (
            hs.evaluate(trained[kind], [text]).bytes_per_token
            for kind in ("unigram", "sentencepiece-unigram")
        )
        assert ours > 0.98 * theirs


def test_word_ends_take_turns(counts):
    texts = baselines._repeated(counts, ("<", ">"))
    found = Counter(word for text in texts for word in text.split())
    for pretoken, n in counts.items():
        word = bytes_to_symbols(pretoken)
        assert (found[word + "<"], found[word + ">"]) == ((n + 1) // 2, n // 2)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_encodes_as_sentencepiece_itself(model_type, counts, held_out):
    stream = io.BytesIO()
    words = [line.split("\t") for line in baselines._sentencepiece_words(counts)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([word for word, n in words for _ in range(min(9, int(n)))]),
        model_writer=stream,
        model_type=model_type,
        vocab_size=800,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    backend = baselines._sentencepiece_backend(processor, model_type)
    lines = [line for line in held_out.splitlines() if line]
    found = [encoding.ids for encoding in backend.encode_batch_fast(lines)]
    if model_type == "bpe":
        assert found == processor.encode(lines)
    else:  # where two ways to cut are equally likely, either is right
        expected = processor.encode(lines)
        assert sum(map(len, found)) == pytest.approx(sum(map(len, expected)), rel=1e-3)
        assert sum(a != b for a, b in zip(found, expected, strict=True)) < 0.02 * len(lines)


def test_refusals(counts):
    with pytest.raises(ConfigurationError, match="unknown baseline 'bp'; choose from bpe, wordpiece"):
        hs.train_baseline("bp", counts)
    characters = hs.count(["some text"], alphabet="chars")
    with pytest.raises(ConfigurationError, match="count the corpus with alphabet='bytes'"):
        hs.train_baseline("bpe", characters)
    text = hs.EvaluationText(["some text"])
    for kind in hs.BASELINES:
        with pytest.raises(VocabSizeError, match="vocab_size is 100, but"):
            hs.train_baseline(kind, counts, 100, corpus=text)
    with pytest.raises(ConfigurationError, match="sentencepiece-unigram can't be trained on counts"):
        hs.train_baseline("sentencepiece-unigram", counts)


def test_the_sample_of_lines_is_spread_evenly(monkeypatch):
    text = hs.EvaluationText(["".join(f"line {i:03}\n" for i in range(300))])  # 2700 bytes
    assert list(baselines._sampled_lines(text)) == [f"line {i:03}" for i in range(300)]
    monkeypatch.setattr(baselines, "_SAMPLE", 900)
    assert list(baselines._sampled_lines(text)) == [f"line {i:03}" for i in range(0, 300, 3)]


# ---- anyone's


def test_a_sentencepiece_model(novel, held_out, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(novel.splitlines()),
        model_prefix=str(tmp_path / "sp"),
        vocab_size=500,
        minloglevel=2,
    )
    processor = hs.load_tokenizer(tmp_path / "sp.model")
    evaluation = hs.evaluate(processor, [held_out])
    assert evaluation.vocab_size == 500
    assert evaluation.n_tokens == len(processor.encode(held_out))
    assert evaluation.tokens[7] == processor.id_to_piece(7)


@pytest.mark.parametrize(("name", "preset"), [("o200k_mine", "gpt4o"), ("r50k", "gpt2")])
def test_a_tiktoken_file(counts, held_out, tmp_path, name, preset):
    plain = hs.train(counts, 900, scaffold=False)
    ranks = {symbols_to_bytes(token): rank for rank, token in enumerate(plain.tokens)}
    path = tmp_path / f"{name}.tiktoken"
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    path.write_text("".join(lines))
    backend = hs.load_tokenizer(path)
    assert hs.get_pre_tokenizer(backend).preset == preset
    if preset == "gpt4o":
        reference = tiktoken.Encoding("x", pat_str=GPT4O_PATTERN, mergeable_ranks=ranks, special_tokens={})
        assert backend.encode(held_out).ids == reference.encode_ordinary(held_out)
        evaluation = hs.evaluate(backend, [held_out])
        assert evaluation.n_tokens == len(reference.encode_ordinary(held_out))


def test_a_folder_and_what_is_no_tokenizer(counts, held_out, tmp_path):
    bpe = hs.train(counts, 600)
    bpe.to_tokenizer().save_pretrained(tmp_path / "ours")
    loaded = hs.load_tokenizer(str(tmp_path / "ours"))
    assert isinstance(loaded, hs.ScaffoldTokenizerFast)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.json"):
        hs.load_tokenizer(tmp_path / "gone.json")
    for suffix in (".json", ".model", ".tiktoken"):
        path = tmp_path / f"broken{suffix}"
        path.write_text("no tokenizer\n")
        with pytest.raises(ConfigurationError, match=f"broken{suffix} can't be read as a tokenizer"):
            hs.load_tokenizer(path)
    with pytest.raises(OSError, match="no-such-folder"):
        hs.load_tokenizer(str(tmp_path / "no-such-folder"))


# ---- the table


def test_the_table_of_tokenizers(trained, counts, novel, held_out, tmp_path):
    bpe = hs.train(counts, VOCAB_SIZE, special_tokens=["<|endoftext|>"])
    trained["bpe"].save_pretrained(tmp_path)
    text = hs.EvaluationText([novel], counts=counts)
    table = hs.compare_tokenizers(
        {"Scaffold-BPE": bpe, "from a file": tmp_path / "tokenizer.json", **trained}, text, [held_out]
    )
    assert [row.text for row in table.rows] == ["train"] * len(METRICS) + ["held-out"] * len(METRICS)
    assert table.evaluations.keys() == {"train", "held-out"}
    for text_name in ("train", "held-out"):
        row = table.row("bytes_per_token", text_name)
        evaluations = table.evaluations[text_name]
        assert row.values == {name: e.bytes_per_token for name, e in evaluations.items()}
        assert set(row.best) == {n for n, v in row.values.items() if v == max(row.values.values())}
        fewest = table.row("n_tokens", text_name)
        assert fewest.best == row.best
        assert fewest.values["bpe"] == fewest.values["from a file"]
        assert {e.n_bytes for e in evaluations.values()} == {
            len((novel if text_name == "train" else held_out).encode())
        }
    assert table.row("vocab_size").best == ()
    assert table.evaluations["held-out"]["bpe"].n_tokens == len(trained["bpe"](held_out)["input_ids"])
    facts = json.loads(json.dumps(table.to_dict()))
    assert facts["evaluations"]["train"]["unigram"]["vocab_size"] == VOCAB_SIZE
    assert facts["rows"][1]["metric"] == "bytes_per_token"
    with pytest.raises(KeyError, match="no metric 'speed'"):
        table.row("speed")


def test_one_text_alone_and_none(counts):
    bpe = hs.train(counts, 300)
    table = hs.compare_tokenizers({"a": bpe, "b": bpe}, held_out=counts)
    assert [row.best for row in table.rows] == [()] * len(METRICS)  # all alike: none is best
    assert table.row("tokens_per_word", "held-out").values == {"a": None, "b": None}
    for arguments in (({}, counts), ({"a": bpe},)):
        with pytest.raises(ConfigurationError, match="give at least one tokenizer"):
            hs.compare_tokenizers(*arguments)


def test_the_table_has_bits_per_byte_if_asked_for(trained, novel, held_out):
    tokenizers = {name: trained[name] for name in ("bpe", "unigram")}
    texts = hs.EvaluationText([novel]), hs.EvaluationText([held_out])
    table = hs.compare_tokenizers(tokenizers, *texts, ngram_order=3)
    alone = {name: hs.ngram_bits_per_byte(t, *texts, order=3, name=name) for name, t in tokenizers.items()}
    assert table.ngrams == alone
    row = table.rows[-1]
    assert row == table.row("ngram_bits_per_byte:3", "held-out")
    assert row.values == {name: found.bits_per_byte for name, found in alone.items()}
    assert row.best == (min(row.values, key=row.values.get),)
    assert json.loads(json.dumps(table.to_dict()))["ngrams"]["bpe"]["n_bytes"] == len(held_out.encode())
    assert table.rows[:-1] == hs.compare_tokenizers(tokenizers, *texts).rows
    with pytest.raises(ConfigurationError, match="n-gram models need two texts"):
        hs.compare_tokenizers(tokenizers, texts[0], ngram_order=3)
    with pytest.raises(ConfigurationError, match="ngram_order is 0; it must be at least 1"):
        hs.compare_tokenizers(tokenizers, *texts, ngram_order=0)


def test_the_table_has_robustness_if_asked_for(trained, counts, novel, held_out):
    tokenizers = {name: trained[name] for name in ("bpe", "unigram")}
    for texts, text in (((novel, held_out), held_out), ((novel,), novel)):
        table = hs.compare_tokenizers(tokenizers, *([text] for text in texts), robustness=True)
        found = {name: hs.robustness(t, [text], name=name) for name, t in tokenizers.items()}
        assert table.robustness == found
        assert [row.text for row in table.rows[-2:]] == [["train", "held-out"][len(texts) - 1]] * 2
        assert [row.values for row in table.rows[-2:]] == [
            {name: row.misspelled for name, row in found.items()},
            {name: row.recased for name, row in found.items()},
        ]
        assert table.rows[-1].shown("bpe") == f"{100 * found['bpe'].recased:.2f} %"
    with pytest.raises(ConfigurationError, match="misspelling needs the text itself"):
        hs.compare_tokenizers({"bpe": hs.train(counts, 300)}, counts, robustness=True)


def test_ties_share_the_best(counts):
    evaluations = {
        name: hs.Evaluation(name, ("a", "b"), np.array(values), n_bytes=9)
        for name, values in (("x", [3, 3]), ("y", [3, 3]), ("z", [6, 1]))
    }
    from hf_scaffold.evaluation.tables import _row

    rows = {metric.name: _row("train", metric, evaluations) for metric in METRICS}
    assert rows["n_tokens"].best == ("x", "y")
    assert rows["entropy"].best == ("x", "y")
