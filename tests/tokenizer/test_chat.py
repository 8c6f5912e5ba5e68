"""Chat templates and streams of tokens, where the text holds demolished tokens. Models: models/."""

import json
from threading import Thread

import numpy as np
import pytest
import toys
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerFast, TextIteratorStreamer, TextStreamer

WORDS = list(toys.WORDS)
# Marks what the model is to say; lists tools; opens the next answer when asked to.
TEMPLATE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for document in documents or [] %}{{ document['text'] }}\n{% endfor %}"
    "{% for message in messages %}{{ bos_token + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token + 'assistant\n' }}{% endif %}"
)
CHATS = [
    [
        {"role": "user", "content": "international zona"},
        {"role": "assistant", "content": "ationa 日本, naïve"},
        {"role": "user", "content": "🙂🙃 étéz?"},
        {"role": "assistant", "content": "zonazona "},
    ],
    [{"role": "system", "content": "nati"}, {"role": "user", "content": "bana na"}],
    [{"role": "user", "content": ""}, {"role": "assistant", "content": "Ariz"}],
]


def zone(name: str, count: int = 1) -> str:
    """
    Find a zone.

    Args:
        name: Of the zona.
        count: How many.
    """
    return name * count


@pytest.fixture
def tokenizer(native):
    return toys.tokenizer(toys.trained(toys.SIZES[1]), native=native, chat_template=TEMPLATE)


# ---- chat templates


@pytest.mark.parametrize("chat", CHATS)
def test_the_ids_are_those_of_the_rendered_text(tokenizer, chat):
    for options in ({}, {"add_generation_prompt": True}):
        text = tokenizer.apply_chat_template(chat, tokenize=False, **options)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.apply_chat_template(chat, return_dict=False, **options) == ids
        batch = tokenizer.apply_chat_template(chat, **options)
        assert batch.data == {"input_ids": ids, "attention_mask": [1] * len(ids)}
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_assistants_tokens_are_masked(tokenizer, side):
    options = {"return_dict": True, "return_assistant_tokens_mask": True, "padding": True}
    tokenizer.padding_side = side
    batch = tokenizer.apply_chat_template(CHATS, **options)
    assert len({*map(len, batch["input_ids"])}) == 1
    for chat, ids, masks in zip(CHATS, batch["input_ids"], batch["assistant_masks"], strict=True):
        said = [message["content"] + "<|eos|>" for message in chat if message["role"] == "assistant"]
        assert tokenizer.decode([i for i, masked in zip(ids, masks, strict=True) if masked]) == "".join(said)


def test_truncated_chats_are_masked_as_far_as_they_go(tokenizer):
    options = {"return_dict": True, "return_assistant_tokens_mask": True}
    whole = tokenizer.apply_chat_template(CHATS[0], **options)
    for length in range(4, len(whole["input_ids"])):
        cut = tokenizer.apply_chat_template(CHATS[0], truncation=True, max_length=length, **options)
        assert cut.data == {name: row[:length] for name, row in whole.items()}


def test_batches_are_their_chats(tokenizer):
    batch = tokenizer.apply_chat_template(CHATS, return_dict=True)
    assert batch["input_ids"] == [
        tokenizer.apply_chat_template(chat, return_dict=True)["input_ids"] for chat in CHATS
    ]
    arrays = tokenizer.apply_chat_template(CHATS, padding=True, return_tensors="np")
    assert arrays["input_ids"].shape == arrays["attention_mask"].shape
    kept = arrays["input_ids"][arrays["attention_mask"] == 1]
    assert kept.tolist() == [i for ids in batch["input_ids"] for i in ids]


def test_the_final_message_is_continued(tokenizer):
    chat = CHATS[0]
    text = tokenizer.apply_chat_template(chat, tokenize=False, continue_final_message=True)
    assert text.endswith("assistant\nzonazona ")
    ids = tokenizer.apply_chat_template(chat, continue_final_message=True, return_dict=False)
    assert tokenizer.decode(ids) == text
    with pytest.raises(ValueError, match="not compatible"):
        tokenizer.apply_chat_template(chat, continue_final_message=True, add_generation_prompt=True)


def test_tools_and_documents_are_rendered(tokenizer):
    documents = [{"title": "zona", "text": "bana téz"}]
    text = tokenizer.apply_chat_template(CHATS[1], tools=[zone], documents=documents, tokenize=False)
    tool, document, _ = text.split("\n", 2)
    assert json.loads(tool)["function"]["parameters"]["properties"]["name"]["description"] == "Of the zona."
    assert document == "bana téz"
    ids = tokenizer.apply_chat_template(CHATS[1], tools=[zone], documents=documents, return_dict=False)
    assert tokenizer.decode(ids) == text


def test_templates_are_chosen_by_name_and_saved(tokenizer, tmp_path):
    tokenizer.chat_template = {"default": TEMPLATE, "short": "{{ messages[0].content }}"}
    assert (
        tokenizer.apply_chat_template(CHATS[0], chat_template="short", tokenize=False) == "international zona"
    )
    tokenizer.save_pretrained(tmp_path)
    loaded = type(tokenizer).from_pretrained(tmp_path)
    for name in (None, "short"):
        options = {"chat_template": name, "return_dict": False}
        assert loaded.apply_chat_template(CHATS, **options) == tokenizer.apply_chat_template(CHATS, **options)


# ---- streams

texts = st.lists(st.sampled_from([*WORDS, " ", "<|eos|>", "e\u0301", "🇩🇪"]) | st.text(max_size=3)).map(
    "".join
)


@given(texts, st.booleans(), st.sampled_from(toys.SIZES))
def test_a_stream_of_tokens_decodes_to_the_text(text, skip_special_tokens, size):
    tokenizer = toys.tokenizer(toys.trained(size))
    ids = tokenizer(text)["input_ids"]
    stream = DecodeStream(skip_special_tokens=skip_special_tokens)
    steps = [stream.step(tokenizer.backend_tokenizer, token_id) for token_id in ids]
    assert "".join(filter(None, steps)) == tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


def test_a_stream_waits_for_whole_characters():
    tokenizer = toys.tokenizer()
    stream = DecodeStream()
    steps = [
        stream.step(tokenizer.backend_tokenizer, i)
        for i in tokenizer("本🙂", add_special_tokens=False).input_ids
    ]
    assert [step for step in steps if step] == ["本", "🙂"]


def test_a_stream_begins_behind_a_prompt():
    tokenizer = toys.tokenizer()
    prompt, ids = tokenizer("zona")["input_ids"], tokenizer("ationa 日本")["input_ids"]
    stream = DecodeStream(ids=prompt, skip_special_tokens=False)
    steps = [stream.step(tokenizer.backend_tokenizer, token_id) for token_id in ids]
    assert "".join(filter(None, steps)) == "ationa 日本"


STREAMED = ["international zona ationa\n日本 naïve 🙂🙃", "<|bos|>zonazona<|eos|>", "日本語日本語"]


@pytest.mark.parametrize("options", [{}, {"skip_special_tokens": True}])
@pytest.mark.parametrize("text", STREAMED)
def test_streamers_print_what_was_generated(text, options, capsys):
    printed = []
    for cls in (None, PreTrainedTokenizerFast):
        tokenizer = toys.tokenizer(**({} if cls is None else {"cls": cls}))
        ids = toys.tokenizer()(text)["input_ids"]
        streamer = TextStreamer(tokenizer, skip_prompt=True, **options)
        streamer.put(np.array([tokenizer("zona")["input_ids"]]))
        for token_id in ids:
            streamer.put(np.array([token_id]))
        streamer.end()
        printed.append(capsys.readouterr().out)
        assert printed[-1] == tokenizer.decode(ids, **options) + "\n"
    assert printed[0] == printed[1]


@pytest.mark.parametrize("text", STREAMED)
def test_streamers_hand_the_text_to_another_thread(text):
    tokenizer = toys.tokenizer()
    streamer = TextIteratorStreamer(tokenizer, timeout=60)

    def generate():
        for token_id in tokenizer(text)["input_ids"]:
            streamer.put(np.array([token_id]))
        streamer.end()

    thread = Thread(target=generate)
    thread.start()
    parts = list(streamer)
    thread.join()
    assert "".join(parts) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)


# ---- decoding


@given(st.lists(texts, min_size=1, max_size=4), st.booleans())
def test_batches_are_decoded_as_stock_does(batch, skip_special_tokens):
    ours, stock = toys.tokenizer(), toys.tokenizer(cls=PreTrainedTokenizerFast)
    rows = [ours(text, add_special_tokens=False)["input_ids"] for text in batch]
    decoded = ours.batch_decode(rows, skip_special_tokens=skip_special_tokens)
    assert decoded == stock.batch_decode(rows, skip_special_tokens=skip_special_tokens)
    if not skip_special_tokens:
        assert decoded == batch
    width = max(map(len, rows))
    padded = np.array([row + [ours.pad_token_id] * (width - len(row)) for row in rows])
    assert ours.batch_decode(padded, skip_special_tokens=True) == ours.batch_decode(rows, True)
