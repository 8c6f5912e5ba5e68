"""Tokenizers of the shapes of published ones: pipelines, merges, and where special tokens stand.

Their vocabularies are learned from a novel and a dozen languages; or, with more tokens, from another text:

    SHAPES_CORPUS=multilingual.txt SHAPES_MERGES=32000 pytest tests/lifecycle/test_chains.py
"""
# ruff: noqa: RUF001  (full-width bars, look-alike letters)

import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path

import pipelines
from tokenizers import AddedToken, Tokenizer, decoders, models, processors
from transformers import PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.text.symbols import BYTE_TOKENS

N_MERGES = int(os.environ.get("SHAPES_MERGES", "500"))

# The first article of the Universal Declaration of Human Rights.
LANGUAGES = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with "
    "reason and conscience and should act towards one another in a spirit of brotherhood.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft "
    "und Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués "
    "de raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
    "fraternité.",
    "vi": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Mọi con "
    "người đều được tạo hoá ban cho lý trí và lương tâm và cần phải đối xử với nhau trong "
    "tình bằng hữu.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana "
    "sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "
    "разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. "
    "Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους "
    "με πνεύμα αδελφοσύνης.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن "
    "يعامل بعضهم بعضا بروح الإخاء.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך "
    "חובה עליהם לנהוג איש ברעהו ברוח של אחוה.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "other": "It's 12345.678 naïve  \t tests:\n\n\n🙂👩\u200d👩\u200d👧 \u200d don't—can't … "
    "{}[]() <html> A\u0301 ﬁ",
}


@cache
def text():
    """What the vocabularies are learned from."""
    if "SHAPES_CORPUS" in os.environ:
        return Path(os.environ["SHAPES_CORPUS"]).read_text(encoding="utf-8")
    novel = (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")
    return novel[:150_000] + "\n".join(LANGUAGES.values()) * 3


@cache
def new_text():
    """What they are extended for."""
    if "SHAPES_CORPUS" in os.environ:
        return text()[-1_000_000:].splitlines()
    return [LANGUAGES[name] for name in ("de", "tr", "ru", "zh", "ja")] * 9


# ---- models


@cache
def learned(normalizer, pre_tokenizer, settings):
    """Symbols and merges of plain BPE; the arguments are those of a pipeline, as JSON."""
    like = pipelines.example(*map(json.loads, (normalizer, pre_tokenizer, settings)))
    tokenizer = hs.train_tokenizer(text().splitlines(), 256 + 8000 + N_MERGES, like=like, scaffold=False)
    symbols = [token for token in tokenizer.get_vocab() if len(token) == 1]
    merges = [(left, right) for left, right in tokenizer.scaffold["merges"]]
    return sorted(symbols), merges[:N_MERGES]


def of_bytes(pipeline, first=(), last=(), splits=False, **settings):
    """A model of bytes, with tokens before and after all others."""
    symbols, merges = learned(*map(json.dumps, pipelines.PIPELINES[pipeline]))
    made = [left + right for left, right in merges]
    vocab = {token: i for i, token in enumerate([*first, *symbols, *made, *last])}
    return models.BPE(vocab, every_split(made, vocab) if splits else merges, **settings)


def of_characters(first):
    """As converted from SentencePiece: control tokens, bytes, merged tokens, and last the characters."""
    symbols, merges = learned(
        *map(json.dumps, (None, pipelines.metaspace("always", True), {"unk_token": "<unk>"}))
    )
    made = [left + right for left, right in merges]
    vocab = {token: i for i, token in enumerate([*first, *BYTE_TOKENS, *made, *symbols])}
    return models.BPE(vocab, every_split(made, vocab), **pipelines.LLAMA)


def every_split(made, vocab):
    """Merges for each way to make a token of two, as files of tiktoken and SentencePiece become."""
    merges = []
    for token in made:
        splits = [(token[:i], token[i:]) for i in range(1, len(token))]
        known = [pair for pair in splits if vocab.keys() >= {*pair}]
        merges += sorted(known, key=lambda pair: [vocab[part] for part in pair])
    return merges


# ---- tokenizers


def joined(model, pipeline, added, decoder, template=None, chat=("", "", ""), **settings):
    """A tokenizer of all parts.

    Args:
        added: Special tokens as text, others as `AddedToken`; those that the model lacks get the next ids.
        template: Of a pair of texts; a single one has its first token, too.
        chat: What stands before a role, behind it, and behind a message.
    """
    normalizer, pre_tokenizer, _ = pipelines.PIPELINES[pipeline]
    state = json.loads(Tokenizer(model).to_str())
    backend = Tokenizer.from_str(
        json.dumps(state | {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer})
    )
    backend.decoder = decoder
    for token in added:
        if isinstance(token, AddedToken):
            backend.add_tokens([token])
        else:
            backend.add_special_tokens([AddedToken(token, normalized=False)])
    if template is not None:
        first = template.split()[0]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", pair=template, special_tokens=[(first, backend.token_to_id(first))]
        )
    role, content, end = chat
    message = "{{ m['role'] }}" + content + "{{ m['content'] }}" + end
    settings["chat_template"] = "{% for m in messages %}" + role + message + "{% endfor %}"
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=512, **settings)


def from_marks(*more):
    """The decoder of characters with marks for spaces."""
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *more])


def gpt2():
    name, end = "GPT-2, RoBERTa, Whisper, Phi-2", "<|endoftext|>"
    model = of_bytes(name, last=[end])
    return joined(model, name, [end], decoders.ByteLevel(), bos_token=end, eos_token=end, unk_token=end)


def llama3():
    reserved = [f"<|reserved_special_token_{i}|>" for i in range(3)]
    begin, header, end_header = "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"
    added = [begin, "<|end_of_text|>", *reserved, header, end_header, "<|eot_id|>"]
    return joined(
        of_bytes("Llama 3", splits=True, ignore_merges=True),
        "Llama 3",
        added,
        decoders.ByteLevel(),
        template=f"{begin} $A {begin}:1 $B:1",
        chat=(header, end_header + "\n\n", "<|eot_id|>"),
        bos_token=begin,
        eos_token="<|end_of_text|>",
    )


def qwen2():
    tools = [AddedToken(token, normalized=False) for token in ("<tool_call>", "</tool_call>")]
    return joined(
        of_bytes("Qwen2, Qwen3"),
        "Qwen2, Qwen3",
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *tools],
        decoders.ByteLevel(),
        chat=("<|im_start|>", "\n", "<|im_end|>\n"),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )


def deepseek_v3():
    begin, end, pad = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
    roles = [AddedToken(token, normalized=False) for token in ("<｜User｜>", "<｜Assistant｜>")]
    return joined(
        of_bytes("DeepSeek-V3", first=[begin, end, pad]),
        "DeepSeek-V3",
        [begin, end, pad, *roles],
        decoders.ByteLevel(),
        template=f"{begin} $A $B:1",
        chat=("<｜User｜>", "<｜Assistant｜>", end),
        bos_token=begin,
        eos_token=end,
        pad_token=end,
    )


def llama2():
    added = ["<unk>", "<s>", "</s>"]
    return joined(
        of_characters(added),
        "Llama 2, Mistral 7B, TinyLlama",
        added,
        from_marks(decoders.Strip(" ", 1, 0)),
        template="<s> $A <s>:1 $B:1",
        chat=("<s>[INST] ", " [/INST] ", " </s>"),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def mistral():
    added = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"]
    return joined(
        of_characters(added),
        "Mistral 7B v0.3",
        added,
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]),
        template="<s> $A $B:1",
        chat=("<s>[INST] ", "[/INST] ", "</s>"),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


SHAPES = {
    "GPT-2": gpt2,
    "Llama 3": llama3,
    "Qwen2.5": qwen2,
    "DeepSeek-V3": deepseek_v3,
    "Llama 2": llama2,
    "Mistral": mistral,
}
