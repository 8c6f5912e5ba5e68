"""Random changes of files: of their bytes, of the values in their JSON, of what there is in a folder.

A mutant is a seed folder with a few files changed. `Random(seed)` decides, so that a seed names a mutant.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

Files = dict[str, bytes | None]  # None: a folder stands where the file would be

# What goes into JSON as it is: no Python value is written like this.
RAW = [
    *("NaN", "Infinity", "-Infinity", "1e308", "1e400", "-0", "-0.0", "1.0", "0.5", "2.0e0"),
    *(
        "1" * 400,
        "1" * 5000,
        "[" * 300 + "]" * 300,
        "[" * 40000 + "]" * 40000,
        '{"a":' * 300 + "1" + "}" * 300,
    ),
    *('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\ufeff"', '"\\u00e9\\u0301"'),
    *("tru", "'a'", "", "//", "1,", "0x10"),
]
NUMBERS = [
    *(0, 1, -1, 2, 3, 255, 256, 65535, 65536, 10**6, 10**8, 10**30, 1e308, 0.1),
    *(2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**31), -(2**63)),
]
AFFIXES = ["##", "##a", "</w>", "a</w>", "▁", "Ġ", "Ġa"]
STRINGS = [
    *("", "a", " ", "\n", "\0", *AFFIXES, "é", "🙂", "<unk>", "<0x41>", "zona", "Arizona", "hug s"),
    *("<|bos|>", "<|eos|>", "<|unused_3|>", "../../x", "/etc/passwd", "a" * 5000, "r\n", "(a+)+$"),
    *("BPE", "ByteLevel", "Sequence", "TemplateProcessing", "WordPiece", "Unigram", "Metaspace", "left"),
    *("right", "ScaffoldTokenizerFast", "$A", "$B:1", "tokenization_scaffold.ScaffoldTokenizerFast"),
]
CONTAINERS = [
    *([], {}, [[]], [{}], {"": ""}, ["a"], ["a", "b"], [["a", "b"]], {"a": 0}, {"a": ["a"]}, [1], [None]),
]
LARGE = [["a", "b"] * 2000, {f"k{i}": i for i in range(2000)}, [["a", "b"]] * 500, "ab" * 20000]
# Names that one of the readers may look for.
KEYS = [
    *("version", "merges", "demolish", "raw_agreement", "training", "unused", "scaffold"),
    *("scaffold_file", "tokenizer_file", "vocab_file", "tokenizer_object", "added_tokens_decoder"),
    *("extra_special_tokens", "model_max_length", "padding_side", "truncation_side", "name_or_path"),
    *("chat_template", "tokenizer_class", "auto_map", "add_prefix_space", "from_slow", "dropout"),
    *("native", "is_local", "split_special_tokens", "model_input_names", "pad_token", "unk_token"),
    *("pad_token_type_id", "fix_mistral_regex", "gguf_file", "fuse_unk", "byte_fallback"),
    *("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "vocab", "padding"),
    *("truncation", "normalizer", "type", "pattern", "special_tokens", "ids", "single", "pair", "cache"),
    *("max_token_length", "special", "id", "content", "raw_splits", "pretokenizer"),
    *("model_specific_special_tokens"),
]
BYTES = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"{", b"]", b",", b"\\", b"\n", b" ", b"9"),
]


def mutate(rng: random.Random, seed: Files, others: list[Files]) -> Files:
    """A changed copy of a seed; `others` are folders to take parts from."""
    files = dict(seed)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 5])):
        name = rng.choices(list(files), [weight(name) for name in files])[0]
        content = files.get(name)
        if content is None:
            continue
        kind = rng.random()
        if kind < 0.02:
            files.update(changed_folder(rng, files, name))
        elif kind < 0.4 and name in SENSIBLE:
            files[name] = sensibly_changed(rng, content, name, others)
        elif kind < 0.75 and name.endswith((".json", ".jsonl")):
            files[name] = mutate_json(rng, content)
        else:
            other = rng.choice(others)
            files[name] = mutate_bytes(rng, content, other.get(rng.choice(list(other))) or b"")
    if rng.random() < 0.03:
        files = with_leftovers(rng, files)
    return {name: content for name, content in files.items() if content != b"<missing>"}


def with_leftovers(rng: random.Random, files: Files) -> Files:
    """As if a save had been cut off; but what it says it removes may lie anywhere."""
    folder = rng.choice([".saved-", ".saving-"]) + "0123456789abcdef"
    moved = {name: f"{folder}/{name}" for name in rng.sample(list(files), rng.randrange(len(files)))}
    left = {moved.get(name, name): content for name, content in files.items()}
    removed = [
        b"../canary",
        b"tokenizer.json",
        b"a/b",
        b"/etc/x",
        b"",
        b".",
        b"..",
        b"../mutant/../canary",
        b"\xff",
    ]
    left[f"{folder}/.removed"] = b"\0".join(rng.sample(removed, rng.randrange(4)))
    left[f"{folder}/{rng.choice(['x/y', 'x', '.removed/z', 'again'])}"] = b"{}"
    return left


def weight(name: str) -> int:
    if name.endswith((".py", ".jinja")):
        return 0 if name.endswith(".py") else 1
    return {"scaffold.json": 12, "tokenizer.json": 12, "tokenizer_config.json": 4}.get(name, 8)


def changed_folder(rng: random.Random, files: Files, name: str) -> Files:
    contents = [b"<missing>", b"", None, *files.values()]
    return {name: rng.choice(contents)}


# ---- bytes


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    stop = min(len(data), start + rng.choice([1, 1, 1, 2, 4, 16, 100, 1000]))
    kind = rng.randrange(8)
    if kind == 0:
        at = min(start, max(len(data) - 1, 0))
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if data else b"\0"
    if kind == 1:
        return data[:start] + data[stop:]
    if kind == 2:
        return data[:start]
    if kind == 3:
        return data[:stop] + data[start:stop] * rng.choice([1, 1, 2, 50]) + data[stop:]
    if kind == 4:
        begin = rng.randrange(len(other) + 1)
        return data[:start] + other[begin : begin + rng.choice([1, 10, 100, 10000])] + data[start:]
    if kind == 5:
        return data[:start] + rng.randbytes(rng.choice([1, 2, 8])) + data[stop:]
    if kind == 6 and (numbers := list(re.finditer(rb"-?\d+", data))):
        number = rng.choice(numbers)
        return data[: number.start()] + str(rng.choice(NUMBERS)).encode() + data[number.end() :]
    return data[:start] + rng.choice(BYTES) + data[start:]


# ---- JSON


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """With one value, key or element changed; what isn't JSON (any more) has a byte changed."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 1 and not data.lstrip().startswith(b"{\n"):  # JSON lines
        at = rng.randrange(len(lines))
        lines[at] = mutate_json(rng, lines[at].rstrip(b"\n")) + b"\n"
        return b"".join(lines)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(rng, data, data)
    holder = [value]
    raw: dict[str, str] = {}
    change(rng, holder, value, raw)
    text = json.dumps(holder[0], ensure_ascii=rng.random() < 0.5)
    for mark, spelled in raw.items():
        text = text.replace(json.dumps(mark), spelled)
    return text.encode(errors="surrogatepass")


def change(rng: random.Random, holder: Any, root: Any, raw: dict[str, str]) -> None:
    parent, key = rng.choice(list(walk(rng, holder)))
    kind = rng.random()
    value = parent[key]
    if kind < 0.30:
        parent[key] = hostile(rng, raw)
    elif kind < 0.45:
        parent[key] = nudged(rng, value)
    elif kind < 0.60:  # a value of another place, once more or in its stead
        other_parent, other_key = rng.choice(list(walk(rng, [root])))
        other = json.loads(json.dumps(other_parent[other_key]))
        if rng.random() < 0.5 and parent is not holder:
            other_parent[other_key] = value
        parent[key] = other
    elif parent is holder:
        parent[key] = hostile(rng, raw)
    elif isinstance(parent, dict):
        change_key(rng, parent, key, raw)
    else:
        change_list(rng, parent, key, raw)


def walk(rng: random.Random, holder: Any) -> Iterator[tuple[Any, Any]]:
    """The places on one random way down: so each level is as likely, however many entries it has."""
    parent, key = holder, 0
    while True:
        yield parent, key
        parent = parent[key]
        if isinstance(parent, dict) and parent:
            key = rng.choice(list(parent))
        elif isinstance(parent, list) and parent:
            key = rng.randrange(len(parent))
        else:
            return


def hostile(rng: random.Random, raw: dict[str, str]) -> Any:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice(STRINGS)
    if kind == 3:
        return json.loads(json.dumps(rng.choice(CONTAINERS)))
    if kind == 4:
        mark = f"@@{len(raw)}@@"
        raw[mark] = rng.choice(RAW)
        return mark
    return json.loads(json.dumps(rng.choice(LARGE)))


def nudged(rng: random.Random, value: Any) -> Any:
    """A little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and abs(value) >> 1000:
        return rng.randrange(300)  # it is beyond what a float holds
    if isinstance(value, (int, float)):
        return rng.choice(
            [value + 1, value - 1, -value, value * 2, float(value), str(value), rng.randrange(300)]
        )
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        return rng.choice(
            [
                value[:at] + rng.choice(STRINGS[:15]) + value[at:],
                value[:-1],
                value[1:],
                value * 2,
                value[::-1],
                [value],
            ]
        )
    if isinstance(value, list):
        return rng.choice([value[::-1], value[:-1], value[1:], value + value, [value], {"a": value}])
    if isinstance(value, dict):
        return rng.choice([list(value), dict(reversed(value.items())), [value], list(value.values())])
    return rng.choice(STRINGS)


def change_key(rng: random.Random, parent: dict[str, Any], key: str, raw: dict[str, str]) -> None:
    """Without an entry, with one more, under another key, or under the same key once more."""
    kind = rng.randrange(5)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[rng.choice(KEYS)] = hostile(rng, raw)
    elif kind == 2:
        parent[rng.choice([*KEYS[:5], *STRINGS])] = parent.pop(key)
    elif kind == 3:
        mark = f"@@{len(raw)}@@"
        raw[mark] = json.dumps(key)
        parent[mark] = rng.choice([parent[key], parent[rng.choice(list(parent))], hostile(rng, raw)])
    else:
        other = rng.choice(list(parent))
        parent[key], parent[other] = parent[other], parent[key]


def change_list(rng: random.Random, parent: list[Any], at: int, raw: dict[str, str]) -> None:
    kind = rng.randrange(5)
    other = rng.randrange(len(parent))
    if kind == 0:
        del parent[at]
    elif kind == 1:
        parent.insert(other, parent[at])
    elif kind == 2:
        parent[at], parent[other] = parent[other], parent[at]
    elif kind == 3:
        parent.insert(at, hostile(rng, raw))
    else:
        joined = parent[at] + parent[other] if type(parent[at]) is type(parent[other]) is list else parent[at]
        parent[at] = joined


# ---- changes that a reader may well take


def sensibly_changed(rng: random.Random, data: bytes, name: str, others: list[Files]) -> bytes:
    """Still such a file, if it was one: with another order, ids, flags or parts."""
    try:
        content = json.loads(data)
        rng.choice(SENSIBLE[name])(rng, content, others)
        return json.dumps(content, ensure_ascii=False).encode(errors="surrogatepass")
    except (ValueError, RecursionError, TypeError, LookupError, AttributeError):  # what it was is gone
        return mutate_bytes(rng, data, data)


def other_id(rng: random.Random, content: Any, others: list[Files]) -> None:
    vocab = content["model"]["vocab"]
    one, other = rng.choices(list(vocab), k=2)
    new = rng.choice([vocab[other], len(vocab) + rng.randrange(99), 10 * len(vocab), rng.choice(NUMBERS)])
    if rng.random() < 0.5:
        new, vocab[other] = vocab[other], vocab[one]
    vocab[one] = new


def other_added_token(rng: random.Random, content: Any, others: list[Files]) -> None:
    token = rng.choice(content["added_tokens"])
    if rng.random() < 0.3:
        token = dict(token)
        content["added_tokens"].append(token)
    flag = rng.choice(["single_word", "lstrip", "rstrip", "normalized", "special", "content", "id"])
    if flag == "id":
        token["id"] = rng.choice([token["id"] + 1, rng.randrange(400), rng.choice(NUMBERS)])
    elif flag == "content":
        token["content"] = rng.choice([*STRINGS, "a" * 3000 + "b", *content["model"]["vocab"]])
    else:
        token[flag] = not token[flag]


def other_part(rng: random.Random, content: Any, others: list[Files]) -> None:
    """A part of another tokenizer."""
    donor = json.loads(
        rng.choice([files["tokenizer.json"] for files in others if "tokenizer.json" in files]) or b""
    )
    part = rng.choice(["normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"])
    content[part] = donor[part]


def other_model_setting(rng: random.Random, content: Any, others: list[Files]) -> None:
    model = content["model"]
    setting, values = rng.choice(
        [
            ("dropout", [0.0, 0.5, 1.0, 2.0]),
            ("unk_token", [None, "<unk>", "a", "nothing", *model["vocab"]]),
            ("continuing_subword_prefix", [None, "", "#", "##", "a"]),
            ("end_of_word_suffix", [None, "", "_", "</w>", "a"]),
            ("fuse_unk", [True, False]),
            ("byte_fallback", [True, False]),
            ("ignore_merges", [True, False]),
        ]
    )
    model[setting] = rng.choice(values)


def runtime_settings(rng: random.Random, content: Any, others: list[Files]) -> None:
    content["truncation"] = rng.choice(
        [
            None,
            {
                "direction": "Left",
                "max_length": rng.choice([0, 1, 5]),
                "strategy": "LongestFirst",
                "stride": 0,
            },
        ]
    )
    content["padding"] = {
        "strategy": rng.choice(["BatchLongest", {"Fixed": rng.choice([7, 10**12])}]),
        "direction": "Left",
        "pad_to_multiple_of": rng.choice([None, 0, 8]),
        "pad_id": rng.choice(NUMBERS),
        "pad_type_id": 0,
        "pad_token": "<|pad|>",
    }


def other_merges(rng: random.Random, content: Any, others: list[Files]) -> None:
    merges = content["merges"] if "merges" in content else content["model"]["merges"]
    kind = rng.randrange(4)
    at, other = rng.randrange(len(merges)), rng.randrange(len(merges))
    if kind == 0:
        merges[at], merges[other] = merges[other], merges[at]
    elif kind == 1:
        del merges[at]
    elif kind == 2:
        merges.insert(other, merges.pop(at))
    else:  # the same token of other parts
        whole = "".join(merges[at])
        cut = rng.randrange(1, len(whole))
        merges.insert(other, [whole[:cut], whole[cut:]])


def other_demolishing(rng: random.Random, content: Any, others: list[Files]) -> None:
    demolish = content["demolish"]
    token = rng.choice(list(demolish))
    pieces = demolish[token]
    at = rng.randrange(len(pieces))
    joined = [*pieces[:at], "".join(pieces[at : at + 2]), *pieces[at + 2 :]]
    demolish[token] = rng.choice([joined, list(token)])


def grown(rng: random.Random, content: Any, others: list[Files]) -> None:
    """Right in itself, with scaffold tokens as long as they come: twice as long each."""
    merges, demolish = content["merges"], content["demolish"]
    token = rng.choice(merges)[0]
    for n in range(rng.choice([1, 3, 8, 12])):
        merges.append([token * 2**n] * 2)
        demolish[token * 2 ** (n + 1)] = [token] * 2 ** (n + 1)


SENSIBLE = {
    "tokenizer.json": [
        *(other_id, other_added_token, other_added_token, other_part, other_model_setting),
        *(runtime_settings, other_merges),
    ],
    "scaffold.json": [other_merges, other_merges, other_demolishing, grown],
}
