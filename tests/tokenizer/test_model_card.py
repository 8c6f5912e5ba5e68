"""What the model card says, and that its metadata and its tables hold whatever is on record."""

import re

import pytest
import toys
import yaml
from huggingface_hub import ModelCard

import hf_scaffold as hs
from hf_scaffold.tokenizer.model_card import BEGIN, END, make_card, update_card

TEXTS = ["the cat and the hat and the band", "the bat sat there 12 times"] * 3


def rows(card):
    """The tables' cells, first column to second."""
    cells = re.findall(r"^\| (.+) \| (.+) \|$", card, re.MULTILINE)
    return dict(cells)


def with_record(**record):
    """A toy that has something else in its scaffold.json."""
    toy = toys.trained()
    return hs.ScaffoldTokenizerFast(
        tokenizer_object=toys.backend(toy), scaffold={**toys.scaffold(toy), **record}
    )


@pytest.fixture(scope="module")
def tokenizer():
    return hs.train_tokenizer(TEXTS, vocab_size=264, eos_token="<|endoftext|>")


def test_metadata_is_yaml_that_the_hub_knows(tokenizer):
    card = make_card(tokenizer, "me/words")
    block = re.match(r"---\n(.*?)\n---\n\n", card, re.DOTALL)
    assert yaml.safe_load(block[1]) == {
        "library_name": "transformers",
        "tags": ["tokenizer", "bpe", "scaffold-bpe"],
    }
    assert ModelCard(card).data.to_dict()["library_name"] == "transformers"
    assert card.startswith(f"{block[0]}{BEGIN}\n\n# words\n")
    assert card.endswith(f"\n{END}\n")


def test_it_says_how_to_load(tokenizer):
    card = make_card(tokenizer, "me/words")
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(blocks) == 2
    assert "import hf_scaffold" in blocks[0]
    assert 'AutoTokenizer.from_pretrained("me/words")' in blocks[0]
    assert 'AutoTokenizer.from_pretrained("me/words", trust_remote_code=True)' in blocks[1]
    for block in blocks:
        compile(block, "card", "exec")


def test_sizes(tokenizer):
    scaffolds = len(tokenizer.scaffold["demolish"])
    found = rows(make_card(tokenizer, "me/words"))
    assert found["tokens"] == "264"
    assert found["special tokens among them"] == "1"
    assert found["scaffold tokens, on top and without id"] == str(scaffolds) != "0"
    share = 100 * scaffolds / (264 + scaffolds)
    assert found["their share of all tokens made"] == f"{share:.1f} % of {264 + scaffolds}"
    assert "tokens added after training" not in found


def test_corpus_and_counts(tmp_path):
    path = tmp_path / "private folder" / "words.txt"
    path.parent.mkdir()
    path.write_text("\n".join(TEXTS * 500))
    counts = hs.count(path)
    card = make_card(hs.train_tokenizer(path, vocab_size=264, min_frequency=2), "me/words")
    found = rows(card)
    assert found["corpus"] == "`words.txt`"
    assert "private folder" not in card
    assert found["bytes"] == f"{counts.n_bytes:,}" == f"{path.stat().st_size:,}"
    assert found["pre-tokens"] == f"{counts.total:,}"
    assert found["distinct pre-tokens"] == str(len(counts))
    assert found["pre-tokenizer"] == "`gpt2-digits`"
    assert found["settings"] == "`min_frequency=2`, `scaffold=True`, `vocab_size=264`"


@pytest.mark.parametrize(
    ("share", "shown"), [(0.99956, "99.95 %"), (0.999999, "99.99 %"), (1, "100 %"), (0, "0.00 %")]
)
def test_raw_agreement_is_never_rounded_up(share, shown):
    card = make_card(with_record(raw_agreement=share), "me/words")
    assert rows(card)["raw agreement"] == f"{shown} of pre-tokens"
    assert f"{shown} as the exact tokenizer does" in " ".join(card.split())


def test_all_raw_agreements_are_told():
    card = make_card(
        with_record(raw_agreement=1, raw_agreement_merges_only=0.5, raw_agreement_unseen=0.9), "me/words"
    )
    assert rows(card)["raw agreement"] == "100 % of pre-tokens"
    assert rows(card)["raw agreement without `ignore_merges`"] == "50.00 % of pre-tokens"
    assert rows(card)["raw agreement on text not trained on, estimated"] == "90.00 % of pre-tokens"


def test_what_is_not_on_record():
    nothing = dict.fromkeys(("raw_agreement", "raw_agreement_merges_only", "raw_agreement_unseen"))
    card = make_card(with_record(**nothing), "me/words")
    assert [value for name, value in rows(card).items() if "agreement" in name] == ["not measured"] * 3
    assert "The corpus is not on record." in card
    assert "None" not in card


def test_plain_bpe_is_not_called_scaffold_bpe():
    tokenizer = hs.train_tokenizer(TEXTS, vocab_size=264, scaffold=False)
    card = make_card(tokenizer, "me/words")
    assert "A BPE tokenizer of 264 tokens, without scaffold tokens" in card
    assert "Scaffold-BPE" not in card
    assert ModelCard(card).data.tags == ["tokenizer", "bpe"]


def test_added_tokens_are_told_apart():
    more = hs.train_tokenizer(TEXTS, vocab_size=264, eos_token="<|endoftext|>")
    more.add_tokens(["<a>", "<b>"])
    found = rows(make_card(more, "me/words"))
    assert (found["tokens"], found["tokens added after training"]) == ("264", "2")
    assert found["special tokens among them"] == "1"


def test_tokenizers_of_characters():
    tokenizer = hs.train_tokenizer(
        TEXTS, vocab_size=32, alphabet="chars", unk_token="<unk>", end_of_word_suffix="</w>"
    )
    found = rows(make_card(tokenizer, "me/words"))
    assert found["tokens"] == f"{len(tokenizer):,}"
    assert found["merges start from"] == "`chars`"
    assert "pre-tokenizer" not in found  # it is no preset of those for bytes


@pytest.mark.parametrize(
    "name", ["a|b.txt", "a`b.txt", "<!-- x -->.txt", "line\nbreak.txt", "caf\ufffd.txt", END, "| x |\n---\n"]
)
def test_names_break_neither_table_nor_marks(name):
    card = make_card(with_record(training={"sources": [name, "b.txt"]}), "me/words")
    shown = rows(card)["corpus"]
    assert shown.endswith(", `b.txt`")
    assert shown.count("`") == 4
    assert (card.count(BEGIN), card.count(END), card.count("\n---\n")) == (1, 1, 1)


def test_many_files_are_counted_after_the_first():
    training = {"sources": [f"part-{i:04}.txt" for i in range(1_220)]}
    shown = rows(make_card(with_record(training=training), "me/words"))["corpus"]
    assert shown.endswith("`part-0019.txt` and 1,200 more")


def test_the_same_tokenizer_gives_the_same_card_wherever_it_came_from(tokenizer, tmp_path):
    card = make_card(tokenizer, "me/words")
    tokenizer.save_pretrained(tmp_path)
    assert make_card(hs.ScaffoldTokenizerFast.from_pretrained(tmp_path), "me/words") == card


# ---- an old card and a new one


def test_only_what_is_between_the_marks_is_written_anew(tokenizer):
    card = make_card(tokenizer, "me/words")
    other = make_card(toys.tokenizer(), "me/words")
    owned = other.replace("library_name", "license: mit\nlibrary_name").replace(END, f"{END}\nMine: {END}")
    updated = update_card(owned, card)
    assert updated.partition(BEGIN)[0] == owned.partition(BEGIN)[0]
    assert updated.partition(END)[2] == owned.partition(END)[2]
    assert updated.partition(BEGIN)[2].partition(END)[0] == card.partition(BEGIN)[2].partition(END)[0]


@pytest.mark.parametrize("old", ["", "# Mine", f"{END} in the wrong order {BEGIN}", f"cut short {BEGIN}"])
def test_without_both_marks_all_of_it_is_the_owners(tokenizer, old):
    assert update_card(old, make_card(tokenizer, "me/words")) == old


def test_tags_are_added_once():
    card = update_card(None, make_card(toys.tokenizer(), "me/words"), ["bpe", "english", "english"])
    assert ModelCard(card).data.tags == ["tokenizer", "bpe", "scaffold-bpe", "english"]
