"""Ids in configs follow their tokens, or the roles of those."""

import copy

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.adapting.matching import Tokens, match_tokens
from hf_scaffold.adapting.token_ids import Moves, resize, size_of


def tokens(*vocab, **roles):
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(vocab)}, []))
    return Tokens.of(PreTrainedTokenizerFast(tokenizer_object=backend, **roles))


OLD = tokens("<eos>", "<pad>", "<img>", "a", "b", "c", eos_token="<eos>", pad_token="<pad>")
# <eos> is there, but has lost its role; <pad> is gone, and so is its role; c is gone.
NEW = tokens("b", "a", "<eos>", "<img>", "<end>", eos_token="<end>")
# <eos> itself is gone.
RENAMED = tokens("<end>", "<fill>", "<img>", "a", "b", eos_token="<end>", pad_token="<fill>")


def moved(new, **fields):
    config = copy.deepcopy(fields)
    changed = Moves(OLD, new, match_tokens(OLD, new)).apply("config.json", config, fields)
    for field, (before, after) in changed.items():
        assert (fields[field], config[field]) == (before, after)
    assert {name for name in fields if config[name] != fields[name]} == changed.keys()
    return config


def test_ids_follow_their_tokens():
    assert moved(
        NEW, image_token_id=2, image_token_index=2, decoder_start_token_id=0, x_token_ids=[3, 4]
    ) == {
        "image_token_id": 3,
        "image_token_index": 3,
        "decoder_start_token_id": 2,
        "x_token_ids": [1, 0],
    }


def test_roles_follow_the_tokenizer():
    assert moved(NEW, eos_token_id=0) == {"eos_token_id": 4}
    assert moved(NEW, eos_token_id=3) == {"eos_token_id": 1}  # not the old tokenizer's, but a token
    assert moved(NEW, eos_token_id=5) == {"eos_token_id": 4}  # a token that is gone
    assert moved(NEW, eos_token_id=50256) == {"eos_token_id": 4}  # the default of a larger model
    assert moved(NEW, pad_token_id=1, bos_token_id=50256) == {"pad_token_id": None, "bos_token_id": None}
    assert moved(NEW, eos_token_id=[0, 3, 5]) == {"eos_token_id": [4, 1]}
    assert moved(RENAMED, eos_token_id=0, pad_token_id=1) == {"eos_token_id": 0, "pad_token_id": 1}


def test_other_fields_follow_the_heir_of_a_token_that_is_gone():
    assert moved(RENAMED, decoder_start_token_id=1, forced_eos_token_id=0) == {
        "decoder_start_token_id": 1,
        "forced_eos_token_id": 0,
    }
    assert moved(tokens("x", "<end>", eos_token="<end>"), forced_eos_token_id=0) == {"forced_eos_token_id": 1}


def test_lists_lose_what_is_gone():
    assert moved(NEW, suppress_tokens=[3, 5, 4], begin_suppress_tokens=[5]) == {
        "suppress_tokens": [1, 0],
        "begin_suppress_tokens": [],
    }
    assert moved(NEW, bad_words_ids=[[3, 4], [3, 5], [5]]) == {"bad_words_ids": [[1, 0]]}
    assert moved(NEW, force_words_ids=[[[3], [4, 3]], [4]]) == {"force_words_ids": [[[1], [0, 1]], [0]]}
    assert moved(NEW, sequence_bias=[[[3, 4], -1.5], [[5], 2.0]]) == {"sequence_bias": [[[1, 0], -1.5]]}
    assert moved(NEW, forced_decoder_ids=[[1, 3], [2, 5]]) == {"forced_decoder_ids": [[1, 1]]}
    assert moved(NEW, lang_to_id={"x": 3, "y": 4}) == {"lang_to_id": {"x": 1, "y": 0}}


def test_what_is_no_id_stays():
    fields = {
        "pad_token_id": -1,
        "image_token_id": None,
        "suppress_tokens": None,
        "max_new_tokens": 3,
        "codebook_pad_token_id": 3,
        "vocab_size": 4,
        "some_token_id": True,
    }
    assert moved(NEW, **fields) == fields


def test_a_field_whose_token_is_gone_is_refused():
    with pytest.raises(
        hs.ConfigurationError, match=r"config\.json has 'c' as its image_token_id, 5, .* null"
    ):
        moved(NEW, image_token_id=5)
    assert moved(NEW, image_token_id=77) == {"image_token_id": None}  # it was none


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"vocab_size": 9, "type_vocab_size": 2}, 9),
        ({"vocab_size": 9, "decoder_vocab_size": 9}, 9),
        ({"text_config": {"vocab_size": 9}, "vision_config": {"vocab_size": 2}}, 9),
        ({"vocab_size": 9, "text_config": {"vocab_size": 9}}, 9),
    ],
)
def test_the_size_is_set_wherever_it_is(config, size):
    assert size_of(config) == size
    known = copy.deepcopy(config)
    resize(config, known, 12)
    assert size_of(config) == 12
    assert str(config) == str(known).replace("9", "12")
    sparse = {"text_config": {}} if "text_config" in known else {}
    resize(sparse, known, 12)
    assert size_of(sparse) == 12


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"encoder": {"vocab_size": 9}}, "no vocab_size"),
        ({"vocab_size": 9, "decoder_vocab_size": 7}, "vocab_size of 9 and a decoder_vocab_size of 7"),
        ({"vocab_size": 9, "text_config": {"vocab_size": 8}}, "vocab_size of 8 and a vocab_size of 9"),
        ({"text_config": {"vocab_size": 8, "vocab_size_per_layer_input": 7}}, "several vocabularies"),
    ],
)
def test_several_vocabularies_are_refused(config, message):
    with pytest.raises(hs.ConfigurationError, match=message):
        size_of(config)
