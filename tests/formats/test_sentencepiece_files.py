"""What SentencePiece makes of a BPE model is what hf_scaffold makes of it; others are refused by name."""

import random

import pytest
import sentencepiece
from many_scripts import TEXTS
from sentencepiece.sentencepiece_model_pb2 import ModelProto

import hf_scaffold as hs
from hf_scaffold.lifecycle.models import as_fast

IDENTITY = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
KINDS = {
    "as it comes": {},
    "Llama's": {"byte_fallback": True, "split_digits": True, "pad_id": 3, **IDENTITY},
    "without a prefix": {"add_dummy_prefix": False, "character_coverage": 1.0, **IDENTITY},
    "runs of spaces": {"byte_fallback": True, "allow_whitespace_only_pieces": True, **IDENTITY},
    "across words": {"byte_fallback": True, "split_by_whitespace": False, **IDENTITY},
    "folded": {"normalization_rule_name": "nmt_nfkc_cf"},
    "own symbols": {"user_defined_symbols": ["<sep>", "Heathcliff"], "add_dummy_prefix": False, **IDENTITY},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory, english_text):
    folder = tmp_path_factory.mktemp("models")
    lines = [*english_text[:150_000].splitlines(), *TEXTS * 3, "    four and   three"] * 2
    for kind, settings in KINDS.items():
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.replace("\0", "") for line in lines if line.strip()),
            model_prefix=str(folder / kind),
            model_type="bpe",
            vocab_size=1000,
            minloglevel=2,
            **settings,
        )
    return folder


def changed(path, change):
    """The model with something else in it."""
    proto = ModelProto.FromString(path.read_bytes())
    change(proto)
    other = path.with_name("changed.model")
    other.write_bytes(proto.SerializeToString())
    return other


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_sentencepiece(kind, models, english_text):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(models / f"{kind}.model"))
    fast = as_fast(models / f"{kind}.model")
    texts = [*TEXTS, *english_text[150_000:200_000].splitlines(), "<sep>Heathcliff<sep>s"]
    texts = [text for text in texts if "<s>" not in text]  # which becomes the control token here
    assert fast(texts, add_special_tokens=False)["input_ids"] == processor.encode(texts)
    tokens = fast.convert_ids_to_tokens([*range(len(fast))])
    assert tokens == [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    if "byte_fallback" in KINDS[kind]:
        ids = processor.encode(texts)
        assert [fast.decode(row) for row in ids] == processor.decode(ids)
    roles = {"bos": processor.bos_id(), "eos": processor.eos_id(), "pad": processor.pad_id()}
    for role, token_id in roles.items():
        assert getattr(fast, f"{role}_token_id") == (None if token_id < 0 else token_id)


def test_every_way_in_takes_a_model(models, english_text, tmp_path):
    path = models / "Llama's.model"
    text = english_text[:50_000].splitlines()
    audit = hs.audit_tokenizer(path, text)
    conversion = hs.convert_tokenizer(str(path), text)
    assert {token.token for token in audit.scaffolds} == {*conversion.tokenizer.scaffold["demolish"]}
    extended = hs.extend(path, text, 1050)
    assert (len(extended), extended.eos_token) == (1050, "</s>")
    extended.save_pretrained(tmp_path)
    assert hs.Encoder.from_pretrained(tmp_path).encode("a house") == extended.encode("a house")
    assert len(hs.prune(path, text, 950).removed) == 50


# ---- refusals


def test_a_unigram_model_is_refused_by_name(models, english_text):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english_text[:50_000].splitlines()),
        model_prefix=str(models / "unigram"),
        model_type="unigram",
        vocab_size=300,
        minloglevel=2,
    )
    with pytest.raises(hs.ConfigurationError, match=r"unigram.model can't .*: it is unigram; only BPE"):
        as_fast(models / "unigram.model")


def test_a_truncated_model_is_refused(models, tmp_path):
    data = (models / "Llama's.model").read_bytes()
    settings = ModelProto.FromString(data)
    settings.ClearField("denormalizer_spec")
    data = settings.SerializeToString()
    path = tmp_path / "truncated.model"
    for size in [*range(200), *range(200, len(data) - 300, 997), *range(len(data) - 300, len(data))]:
        path.write_bytes(data[:size])
        with pytest.raises(hs.ConfigurationError, match=r"truncated.model can't be read as a tokenizer"):
            as_fast(path)


def piece_of(kind, text="zzzz", score=-5000.5):
    return lambda proto: proto.pieces.add(piece=text, score=score, type=kind)


PIECE = ModelProto.SentencePiece
CHANGES = {
    "spaces as they are": (
        lambda p: setattr(p.normalizer_spec, "escape_whitespaces", False),
        "leaves spaces",
    ),
    "word ends": (lambda p: setattr(p.trainer_spec, "treat_whitespace_as_suffix", True), "ends of words"),
    "a model of words": (lambda p: setattr(p.trainer_spec, "model_type", 3), "it is a model of words"),
    "a piece twice": (piece_of(PIECE.NORMAL, "h"), "'h' with the id 1000 is that with the id"),
    "an empty piece": (piece_of(PIECE.NORMAL, ""), "has 0 bytes"),
    "a huge piece": (piece_of(PIECE.NORMAL, "ab" * 5000), "has 10,000 bytes; up to 256"),
    "an unused piece": (piece_of(PIECE.UNUSED), "is marked as unused"),
    "a defined space": (piece_of(PIECE.USER_DEFINED, "▁▁"), "is defined by the user and has a space"),
    "no number": (piece_of(PIECE.NORMAL, score=float("nan")), "has the score nan"),
    "infinity": (piece_of(PIECE.NORMAL, score=float("-inf")), "has the score -inf"),
    "equal scores": (piece_of(PIECE.NORMAL, score=-1.0), "neither is merged first"),
    "two unknown pieces": (piece_of(PIECE.UNKNOWN), "has 2 unknown pieces"),
    "another byte": (piece_of(PIECE.BYTE, "<0xGG>"), "pieces of bytes"),
    "no bytes": (lambda p: setattr(p.trainer_spec, "byte_fallback", False), "pieces of bytes"),
    "no charsmap": (lambda p: setattr(p.normalizer_spec, "precompiled_charsmap", b"abc"), "its charsmap"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_tokenizer_json_can_not_say_is_refused(case, models):
    change, message = CHANGES[case]
    with pytest.raises(hs.ConfigurationError, match=message) as caught:
        as_fast(changed(models / "Llama's.model", change))
    assert len(str(caught.value)) < 600


def test_bytes_at_random_places_are_read_or_refused(models, tmp_path):
    """Never a crash, nor an error of another kind."""
    proto = ModelProto.FromString((models / "as it comes.model").read_bytes())
    del proto.pieces[300:]
    data = proto.SerializeToString()
    path = tmp_path / "changed.model"
    draw = random.Random(0)
    outcomes = set()
    for _ in range(300):
        other = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            other[draw.randrange(len(other))] = draw.randrange(256)
        path.write_bytes(other)
        try:
            as_fast(path)("a b")
            outcomes.add("read")
        except hs.ConfigurationError as error:
            assert "changed.model" in str(error)  # noqa: PT017
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
