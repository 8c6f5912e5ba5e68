"""The report: its forms agree, hold what was measured, and let nothing of the corpus act in a page."""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from html.parser import HTMLParser

import pytest
import tokenizers
from tokenizers import Regex
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Split

import hf_scaffold as hs
from hf_scaffold.cli.commands import main
from hf_scaffold.evaluation.inspection import readable
from hf_scaffold.evaluation.metrics import EvaluationText
from hf_scaffold.report import words
from hf_scaffold.report.html import BUILDS
from hf_scaffold.report.passages import Passage, Piece, choose_passage, differing_share, split_passage
from hf_scaffold.report.report import BASELINE_NAMES, DEFAULT_BASELINES, make_report
from hf_scaffold.report.words import token_text
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer
from hf_scaffold.training.agreement import percent_down

ARROWS = {True: "↑", False: "↓", None: ""}
VOID = {"meta", "input", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """The elements of a page as (tag, attributes, texts of their own and inside), in order of their start."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open = [], []
        self.feed(text)
        self.close()
        assert not self.open, "elements were left open"

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", "inside": [e["tag"] for e in self.open], **dict(attributes)}
        element["parents"] = [*self.open]
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def find(self, tag, inside=None):
        """Elements of a tag; of those in the element with an id, if one is given."""
        return [
            element
            for element in self.elements
            if element["tag"] == tag
            and (inside is None or any(parent.get("id") == inside for parent in element["parents"]))
        ]

    def rows(self, inside):
        """The rows of a table: the texts of their cells."""
        rows = {}
        for cell in self.elements:
            if cell["tag"] in ("td", "th") and any(p.get("id") == inside for p in cell["parents"]):
                rows.setdefault(id(cell["parents"][-1]), []).append(" ".join(cell["text"].split()))
        return list(rows.values())


def markdown_tables(text):
    """The rows of each table, without the line under its header."""
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [
            [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in table.splitlines()
            if "---" not in line
        ]
        for table in tables
    ]


def shown(row, name):
    """A value of a JSON row as people read it."""
    value = row["values"][name]
    if row["metric"].startswith("share_"):
        return f"{100 * value:.2f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


@pytest.fixture(scope="module")
def texts(english_text):
    return english_text[:150_000], english_text[-15_000:]


@pytest.fixture
def files(texts, tmp_path):
    for name, text in zip(("train.txt", "held-out.txt"), texts, strict=True):
        (tmp_path / name).write_text(text[:60_000])
    return tmp_path


@pytest.fixture(scope="module")
def report(texts):
    train, held_out = texts
    return hs.make_report(
        [train],
        1200,
        held_out=[held_out],
        baselines=["bpe", "wordpiece"],
        special_tokens=["<|endoftext|>"],
        ngram_order=2,
        robustness=True,
    )


@pytest.fixture(scope="module")
def page(report):
    return Page(report.to_html())


@pytest.fixture(scope="module")
def facts(report):
    return json.loads(report.to_json())


@pytest.fixture(scope="module")
def tables(report):
    return markdown_tables(report.to_markdown())


# ---- what is in it


def test_it_measures_what_was_trained(report, texts):
    train, held_out = texts
    counts = hs.count([train])
    bpe = hs.train(counts, 1200, special_tokens=["<|endoftext|>"])
    plain = hs.train(counts, 1200, special_tokens=["<|endoftext|>"], scaffold=False)
    before, after = (hs.evaluate(tokenizer, [train]) for tokenizer in (plain, bpe))
    assert report.tokenizers == ("Scaffold-BPE", "BPE", "WordPiece")
    assert {fact.token for fact in report.scaffolds} == set(bpe.scaffold_tokens)
    assert report.changes["train"].gain == hs.compare_vocabularies(before, after).gain
    row = report.table.row("bytes_per_token", "held-out")
    assert row.values["Scaffold-BPE"] == hs.evaluate(bpe, [held_out]).bytes_per_token
    assert report.bytes_per_token_gain("train") == after.bytes_per_token / before.bytes_per_token - 1
    assert report.scaffold_share == len(bpe.scaffold_tokens) / len(bpe.vocab)


def test_it_has_bits_per_byte_and_robustness_if_asked_for(report, texts):
    train, held_out = texts
    row = report.table.row("ngram_bits_per_byte:2", "held-out")
    bpe = hs.train(hs.count([train]), 1200, special_tokens=["<|endoftext|>"])
    assert (
        row.values["Scaffold-BPE"] == hs.ngram_bits_per_byte(bpe, [train], [held_out], order=2).bits_per_byte
    )
    assert json.loads(report.to_json())["ngrams"]["BPE"]["by_order"][1] == row.values["BPE"]
    assert "2-gram models of its tokens" in report.to_markdown()
    for name, tokenizer in (("Scaffold-BPE", bpe), ("BPE", report.plain_bpe)):
        found = hs.robustness(tokenizer, [held_out])
        assert report.table.row("share_added:misspelled", "held-out").values[name] == found.misspelled
        assert report.table.row("share_added:recased", "held-out").values[name] == found.recased
    assert "-gram" not in hs.make_report([train], 500, baselines=[]).to_markdown()


def test_it_tells_a_scaffold_token_apart(report, texts):
    counts = hs.count([texts[0]])
    bpe = hs.train(counts, 1200, special_tokens=["<|endoftext|>"])
    alone = {row.token: row for row in hs.standalone_share(bpe, counts, bpe.scaffold_tokens)}
    assert [fact.occurrences for fact in report.scaffolds] == sorted(
        (row.occurrences for row in alone.values()), reverse=True
    )
    for fact in report.scaffolds:
        assert "".join(fact.parts) == "".join(fact.demolished) == fact.token
        assert fact.parts in bpe.merges
        assert fact.demolished == bpe.demolish(fact.token)
        assert (fact.alone, fact.occurrences) == (alone[fact.token].alone, alone[fact.token].occurrences)
        assert all(fact.token in token and token in bpe.tokens for token in fact.builds)


def test_texts_are_measured_apart(report, texts):
    train, held_out = report.texts
    assert (train.name, held_out.name) == ("train", "held-out")
    assert [t.n_bytes for t in report.texts] == [len(text.encode()) for text in texts]
    assert [t.n_words for t in report.texts] == [len(text.split()) for text in texts]


def test_without_held_out_text_or_baselines(texts):
    report = hs.make_report([texts[0]], 500, baselines=[])
    assert report.tokenizers == ("Scaffold-BPE", "BPE")
    assert [text.name for text in report.texts] == ["train"]
    assert report.passage.origin == "train"
    assert "Held-out" not in report.to_html() + report.to_markdown()


def test_where_training_runs_out_and_nothing_is_a_scaffold():
    with pytest.warns(UserWarning, match="the vocabulary has"):
        report = hs.make_report(["ab ab cd"], 300, baselines=[])
    assert report.scaffolds == ()
    assert report.changes["train"].gain is None
    assert report.stop_reason in Page(report.to_html()).find("body")[0]["text"]
    assert json.loads(report.to_json())["stop_reason"] == report.stop_reason
    assert "Stopped early" in report.to_markdown()


def test_existing_tokenizers_are_compared_by_name(texts, tmp_path):
    other = hs.train_tokenizer([texts[0]], 400)
    other.save_pretrained(tmp_path)
    report = hs.make_report([texts[0]], 500, baselines=[], compare_with=[str(tmp_path)])
    again = hs.make_report([texts[0]], 500, baselines=[], compare_with={"mine": other})
    assert report.tokenizers[-1] == str(tmp_path)
    row = report.table.row("n_tokens")
    assert row.values[str(tmp_path)] == again.table.row("n_tokens").values["mine"]
    assert row.values[str(tmp_path)] == hs.evaluate(other, [texts[0]]).n_tokens


# ---- the forms agree


def test_page_and_json_have_one_table(page, facts):
    names = facts["tokenizers"]
    cells = [row for row in page.rows("metrics") if len(row) == len(names) + 1]
    assert cells[0] == ["Metric", *names]
    for row, shown_row in zip(facts["rows"], cells[1:], strict=True):
        assert shown_row[0] == f"{row['label']} {ARROWS[row['higher_is_better']]}".strip()
        assert [cell.removeprefix("★ ") for cell in shown_row[1:]] == [shown(row, name) for name in names]


def test_markdown_and_json_have_one_table(tables, facts):
    names = facts["tokenizers"]
    train, held_out, *_ = tables
    assert train[0] == held_out[0] == ["Metric", *names]
    for row, shown_row in zip(facts["rows"], train[1:] + held_out[1:], strict=True):
        assert shown_row[0] == f"{row['label']} {ARROWS[row['higher_is_better']]}".strip()
        assert [re.sub(r"\*\*|\*\* ★| ★", "", cell) for cell in shown_row[1:]] == [
            shown(row, name) for name in names
        ]


def test_the_best_are_marked(page, tables, facts):
    names = facts["tokenizers"]
    rows = [row for row in page.rows("metrics") if len(row) == len(names) + 1][1:]
    lines = tables[0][1:] + tables[1][1:]
    assert any(row["best"] for row in facts["rows"])
    for row, cells, line in zip(facts["rows"], rows, lines, strict=True):
        known = [row["values"][name] for name in names]
        best = max(known) if row["higher_is_better"] else min(known)
        judged = row["higher_is_better"] is not None and len(set(known)) > 1
        expected = [name for name in names if judged and row["values"][name] == best]
        assert row["best"] == expected
        assert [name for name, cell in zip(names, cells[1:], strict=True) if "★" in cell] == expected
        assert [name for name, cell in zip(names, line[1:], strict=True) if "★" in cell] == expected


def test_page_and_json_have_the_same_scaffold_tokens(page, facts):
    rows = page.rows("scaffold-rows")
    assert len(rows) > 20
    for fact, row in zip(facts["scaffolds"], rows, strict=True):
        parts, demolished = (" ".join(map(token_text, fact[key])) for key in ("parts", "demolished"))
        builds = " ".join(map(token_text, fact["builds"][:BUILDS]))
        if len(fact["builds"]) > BUILDS:
            builds += f" and {len(fact['builds']) - BUILDS:,} more"
        numbers = f"{fact['occurrences']:,}", f"{fact['alone']:,}"
        assert row == [token_text(fact["token"]), parts, demolished, *numbers, builds]


def test_markdown_begins_the_same_list_of_scaffold_tokens(tables, facts):
    header, *rows = tables[-1]
    assert header[0] == "Scaffold token"
    for fact, row in zip(facts["scaffolds"], rows, strict=False):
        assert token_text(fact["token"]) in row[0]
        assert row[3:5] == [f"{fact['occurrences']:,}", f"{fact['alone']:,}"]


@pytest.mark.parametrize("which", ["added", "removed"])
def test_page_and_json_have_the_same_tokens_gained(page, report, facts, which):
    listed = [" ".join(item["text"].split()) for item in page.find("li", inside=which)]
    expected = [f"{token_text(token)} {n:,}" for token, n in facts["changes"]["train"][which].items()]
    assert listed == expected
    first = expected[0].rsplit(" ", 1)
    assert f"`{first[0]}` {first[1]}" in report.to_markdown()


def test_headlines_are_the_same_everywhere(page, report, facts):
    change = facts["changes"]["train"]
    for text in (page.find("header")[0]["text"], report.to_markdown()):
        assert f"{facts['n_scaffolds']:,}" in text
        assert f"{100 * facts['scaffold_share']:.1f} %" in text
        assert f"{100 * change['gain']:+.1f} %" in text
        assert f"{change['mean_added']:,.1f} times" in text
        assert f"{change['mean_removed']:,.1f} times" in text
        assert f"{100 * facts['bytes_per_token_gain']['held-out']:+.2f} %" in text
        assert f"{100 * facts['texts'][1]['differing']:.1f} %" in text
        assert f"{facts['texts'][0]['n_bytes']:,} bytes" in text


def test_all_raw_agreements_are_everywhere(page, report, facts, texts):
    bpe = hs.train(hs.count([texts[0]]), 1200, special_tokens=["<|endoftext|>"])
    assert bpe.raw_agreements == {name: facts[name] for name in bpe.raw_agreements} == report.raw_agreements
    held_out = report.table.evaluations["held-out"]["Scaffold-BPE"].raw_agreement
    assert facts["evaluations"]["held-out"]["Scaffold-BPE"]["raw_agreement"] == held_out < 1
    for text in (page.find("header")[0]["text"], report.to_markdown()):
        for share in (*bpe.raw_agreements.values(), held_out):
            assert percent_down(share) in text


def test_figures_show_the_facts(page, facts):
    frequencies, tail, gain, standalone = page.find("svg")
    assert list(facts["frequency_curves"]["train"]) == facts["tokenizers"]
    for name in facts["tokenizers"]:
        assert name in frequencies["text"]
        assert name in tail["text"]
    change = facts["changes"]["held-out"]
    assert f"{change['mean_added']:,.1f} ({100 * change['gain']:+.1f} %)" in gain["text"]
    for rows in facts["standalone"].values():
        for row in rows:
            assert row["share"] == row["alone"] / row["occurrences"]
            share = f"{100 * row['share']:.1f} %, {row['alone']:,} of {row['occurrences']:,}"
            assert f"{readable(row['token'])}{share}" in standalone["text"]


def test_json_holds_nothing_that_is_no_json(report):
    assert json.loads(report.to_json(), parse_constant=pytest.fail) == json.loads(
        json.dumps(report.to_dict())
    )


# ---- a passage


def test_the_passage_is_all_there(report, texts, page):
    passage = report.passage
    assert passage.origin == "held-out"
    assert passage.text in texts[1]
    for side in ("plain", "scaffold"):
        tokens = [token for piece in passage.pieces for token in getattr(piece, side)]
        assert symbols_to_bytes("".join(tokens)).decode() == passage.text
    plain, scaffold = (p for p in page.find("p", inside="passage") if p.get("class") == "passage")
    assert plain["text"].replace("⏎\n", "\n") == scaffold["text"].replace("⏎\n", "\n") == passage.text


def test_what_differs_is_marked_in_the_passage(report, page, facts):
    plain, scaffold = facts["passage"]["n_tokens"]
    heads = [head["text"] for head in page.find("h3", inside="passage")]
    assert heads == [f"BPE {plain:,} tokens", f"Scaffold-BPE {scaffold:,} tokens"]
    assert f"| BPE: {plain:,} tokens | Scaffold-BPE: {scaffold:,} tokens |" in report.to_markdown()
    differing = [piece for piece in report.passage.pieces if piece.plain != piece.scaffold]
    assert len(differing) == report.passage.n_differing > 0
    marks = [
        mark for mark in page.find("mark", inside="passage") if mark["parents"][-1].get("class") == "passage"
    ]
    assert len(marks) == 2 * len(differing)


def test_the_passage_may_be_given(texts):
    report = hs.make_report([texts[0]], 500, baselines=[], passage="Heathcliff's\nown words.")
    assert report.passage.text == "Heathcliff's\nown words."
    assert report.passage.origin == "given"


@pytest.mark.parametrize("vocab_size", [600, 1200])
def test_paper_says_which_lists_it_cuts(texts, vocab_size):
    report = hs.make_report([texts[0][:20_000]], vocab_size, baselines=["bpe"])
    change = report.changes["train"]
    lengths = [len(change.added), len(change.removed), len(report.scaffolds)]
    said = re.findall(r"On paper, the first 60 of (\d+)", report.to_html())
    assert said == [str(n) for n in lengths if n > 60]
    assert len(said) == (3 if vocab_size == 1200 else 0)


@pytest.fixture(scope="module")
def two(texts):
    counts = hs.count([texts[0]])
    return hs.train(counts, 800, scaffold=False), hs.train(counts, 800), counts


def test_the_passage_that_differs_most_is_chosen(two):
    plain, scaffold, counts = two
    differing = [
        word.decode() for word in counts if split_passage(word.decode(), "", plain, scaffold).n_differing
    ]
    alike = "the of and to in " * 30
    most = alike + "".join(differing[:7])
    some = alike + "".join(differing[:3])
    assert choose_passage([some, most, alike, most + " again"], plain, scaffold) == most.strip()
    assert choose_passage([], plain, scaffold) == ""


def test_long_lines_are_cut_at_white_space_or_anywhere(two):
    plain, scaffold, _ = two
    assert len(choose_passage(["word " * 1000], plain, scaffold)) <= 800
    assert len(choose_passage(["字" * 3000], plain, scaffold)) <= 800


def test_the_differing_share_is_that_of_the_pre_tokens(two):
    plain, scaffold, counts = two
    differing = sum(
        n for word, n in counts.items() if split_passage(word.decode(), "", plain, scaffold).n_differing
    )
    assert differing_share(plain, scaffold, counts) == differing / counts.total
    assert differing_share(plain, plain, counts) == 0


def test_runs_of_white_space_and_signs_are_no_words(two):
    plain, scaffold, _ = two
    signs = split_passage("— … \n\n ?!", "", plain, scaffold)
    assert signs.n_words == 0
    mixed = split_passage("née 12 — été", "", plain, scaffold)
    assert [piece.text for piece in mixed.pieces if piece.is_word] == ["née", "1", "2", " été"]


ALIKE, DIFFERING, SPACE = Piece(("a",), ("a",)), Piece(("b", "c"), ("bc",)), Piece(("Ċ", "Ċ"), ("ĊĊ",))


def test_only_words_count_as_differing():
    assert Passage("", "", (ALIKE, SPACE, SPACE, DIFFERING)).n_differing == 1
    assert Passage("", "", (ALIKE, SPACE, SPACE, DIFFERING)).n_words == 2


def test_the_excerpt_is_where_most_words_differ():
    pieces = (ALIKE, DIFFERING, ALIKE, ALIKE, ALIKE, DIFFERING, DIFFERING, ALIKE, *[SPACE] * 9)
    passage = Passage("", "", pieces)
    assert passage.excerpt(3) == "abcbc"
    assert passage.excerpt(100) == "abcaaabcbca"
    assert Passage("", "", ()).excerpt() == ""


# ---- a page that can be sent around


def test_the_page_needs_nothing_else(report):
    page = report.to_html()
    without_names = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.findall(r"https?:|url\(|@import|\bsrc=", without_names)
    links = [element["href"] for element in Page(page).find("a")]
    ids = {element.get("id") for element in Page(page).elements}
    assert links
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    assert not Page(page).find("link")


def test_search_fields_know_their_rows(page, facts):
    fields = {field["data-filters"]: field for field in page.find("input")}
    assert set(fields) == {"added", "removed", "scaffold-rows"}
    assert len(page.rows("scaffold-rows")) == len(facts["scaffolds"])
    for field in fields.values():
        assert "hidden" in field["parents"][-2]  # until the script shows it


def test_the_page_says_what_a_scaffold_token_is(report, page, facts):
    explained, verdict = (p["text"] for p in page.find("p") if "lead" in (p.get("class") or "").split())
    fact = next(f for f in facts["scaffolds"] if f"Here, “{token_text(f['token'])}” helps" in explained)
    counted = f"of the {fact['occurrences']:,} places that spell it, only {fact['alone']:,} keep"
    assert counted in explained
    assert f"“{token_text(fact['builds'][0])}”" in explained
    tokens = report.table.row("n_tokens", "held-out").values
    assert f"{100 * (1 - tokens['Scaffold-BPE'] / tokens['BPE']):.2f} % fewer tokens" in verdict
    n_removed = len(facts["changes"]["train"]["removed"])
    assert f"replaces {n_removed:,} of plain BPE's 1,200 tokens" in verdict
    for part in (explained, *words.verdict(report)):
        assert part in report.to_markdown()


@pytest.mark.parametrize(
    ("gain", "saved", "conclusion"),
    [
        (0.5, 0.02, "A model sees rare tokens more often, and sequences get shorter"),
        (0.5, 0.001, "A model sees rare tokens more often, and sequences stay practically as long"),
        (0.5, -0.02, "A model sees rare tokens more often, but sequences get longer"),
        (-0.1, 0.0, "There is nothing to gain in how evenly tokens are used"),
    ],
)
def test_the_conclusion_follows_the_figures(report, monkeypatch, gain, saved, conclusion):
    monkeypatch.setattr(hs.VocabularyChange, "gain", gain)
    monkeypatch.setattr(type(report), "tokens_saved", lambda *_: saved)
    found, concluded = words.verdict(report)
    assert concluded == f"{conclusion}."
    assert f"{100 * abs(saved):.2f} % {'more' if saved < 0 else 'fewer'} tokens" in found


def test_a_gain_in_the_training_text_alone_is_no_gain(report, monkeypatch):
    trained = report.changes["train"]
    monkeypatch.setattr(
        hs.VocabularyChange, "gain", property(lambda change: 0.5 if change is trained else -0.1)
    )
    monkeypatch.setattr(type(report), "tokens_saved", lambda *_: 0.02)
    _, concluded = words.verdict(report)
    assert concluded == (
        "Only in the training text are rare tokens seen more often, not in the held-out text, "
        "and sequences get shorter."
    )


def test_the_same_vocabulary_is_no_gain():
    with pytest.warns(UserWarning, match="the vocabulary has"):
        report = hs.make_report(["ab ab cd"], 300, baselines=[])
    assert "have the same vocabulary" in report.to_html()


@pytest.mark.parametrize(
    ("pre_tokenizer", "normalizer", "reason"),
    [
        (ByteLevel(add_prefix_space=True), None, "the pre-tokenizer adds a space"),
        (ByteLevel(add_prefix_space=False), NFC(), "a normalizer changes the text first"),
        (Split(Regex(r"(a)\1"), "isolated"), None, "the pre-tokenizer's pattern"),
    ],
)
def test_where_the_page_could_not_encode_exactly_there_is_no_box(texts, pre_tokenizer, normalizer, reason):
    cutter = get_pre_tokenizer(pre_tokenizer, normalizer)
    report = hs.make_report([texts[0][:5000]], 300, baselines=[], pre_tokenizer=cutter)
    page = Page(report.to_html())
    assert reason in page.find("p", inside="try")[0]["text"]
    assert not page.find("textarea")
    assert len(page.find("script")) == 1
    assert json.loads(report.to_json())["settings"]["pre_tokenizer"] == cutter.to_json()
    assert "pre-tokenizer" in report.to_markdown()


def test_long_lists_of_the_page_end_and_say_so(report, monkeypatch):
    monkeypatch.setattr("hf_scaffold.report.html.ROWS", 10)
    monkeypatch.setattr("hf_scaffold.report.html.BUILDS", 1)
    page = Page(report.to_html())
    rows = page.rows("scaffold-rows")
    assert len(rows) == len(page.find("li", inside="added")) == len(page.find("li", inside="removed")) == 10
    assert f"The first 10 of {len(report.scaffolds):,}; the JSON form has all" in page.find("main")[0]["text"]
    most = next(i for i, fact in enumerate(report.scaffolds[:10]) if len(fact.builds) > 1)
    assert rows[most][-1].endswith(f" and {len(report.scaffolds[most].builds) - 1:,} more")


def test_all_forms_say_how_they_were_made(files, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    options = ["--held-out", files / "held-out.txt", "--baseline", "bpe", "--special-token", "<a b>"]
    forms = [files / name for name in ("r.html", "r.json", "r.md")]
    outputs = [word for form in forms for word in ("-o", form)]
    assert run(files, *options, "--num-workers", 1, *outputs) == 0
    page, facts, markdown = (form.read_text(encoding="utf-8") for form in forms)
    made = json.loads(facts)["run"]
    assert made["date"] == "2001-09-09"
    assert made["command"] == (
        "hf-scaffold report train.txt --vocab-size 600 --held-out held-out.txt --baseline bpe "
        "--special-token '<a b>'"
    )
    assert made["versions"]["tokenizers"] == tokenizers.__version__
    (footer,) = Page(page).find("footer")
    for text in (footer["text"], markdown.replace("\\_", "_")):
        assert made["command"] in text
        assert f"hf_scaffold {hs.__version__}" in text
        assert "2001-09-09" in text


def test_the_command_of_a_report_makes_it_again(files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    options = ["--baseline", "bpe", "--passage", 'it\'s -- "so"', "--text-field", "other"]
    assert run(files, *options, "-o", "r.json") == 0
    written = (files / "r.json").read_text(encoding="utf-8")
    _, *arguments = shlex.split(json.loads(written)["run"]["command"])
    assert main([*arguments, "-o", "again.json"]) == 0
    assert (files / "again.json").read_text(encoding="utf-8") == written


def test_who_trains_others_is_named(texts):
    report = hs.make_report([texts[0][:20_000]], 600, baselines=["sentencepiece-bpe"])
    assert set(report.run.versions) == {"hf_scaffold", "Python", "tokenizers", "sentencepiece"}
    assert report.run.command is None
    assert "Command" not in report.to_markdown()


NASTY = '<script>alert("1")</script> <img src=x onerror=alert(2)> `code` | pipe & &amp; {{ 7 * 7 }} '


@pytest.fixture
def nasty(tmp_path):
    path = tmp_path / "<script>name|`.txt"
    path.write_text(NASTY * 200)
    return hs.make_report(
        path,
        272,
        held_out=[NASTY],
        baselines=[],
        special_tokens=["<script>"],
        passage="</p></body><script>alert(3)</script>",
        compare_with={"<b>|other": hs.train(hs.count([NASTY]), 260)},
    )


def test_nothing_in_the_corpus_acts_in_the_page(nasty):
    page = Page(nasty.to_html())
    data, box, search = page.find("script")
    assert json.loads(data["text"])["special_tokens"] == ["<script>"]
    assert "class Encoder" in box["text"]
    assert "data-filters" in search["text"]
    assert not page.find("img")
    assert not page.find("b", inside="metrics")
    assert "<script>name|`.txt" in page.find("header")[0]["text"]
    assert "49" not in page.find("header")[0]["text"]
    assert any("<b>|other" in th["text"] for th in page.find("th"))


def test_nothing_in_the_corpus_acts_in_markdown(nasty):
    text = nasty.to_markdown()
    without_code = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
    assert not re.search(r"(?<!\\)<", without_code)
    tables = markdown_tables(text)
    assert all(len({len(row) for row in table}) == 1 for table in tables)


def test_the_same_text_gives_the_same_bytes(files):
    forms = ["report.html", "report.md", "report.json"]
    for seed in "12":
        (files / seed).mkdir()
        command = [sys.executable, "-m", "hf_scaffold", "report", "train.txt", "--vocab-size", "500"]
        command += ["--held-out", "held-out.txt", "--baseline", "bpe", "--num-workers", seed]
        command += [word for form in forms for word in ("-o", f"{seed}/{form}")]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": "86400"}
        subprocess.run(command, cwd=files, env=environment, check=True)
    for form in forms:
        written = (files / "1" / form).read_text(encoding="utf-8")
        assert written == (files / "2" / form).read_text(encoding="utf-8")
        assert "1970-01-02" in written


def test_every_baseline_has_a_name():
    assert tuple(BASELINE_NAMES) == hs.BASELINES
    assert set(DEFAULT_BASELINES) == {"bpe", "wordpiece", "unigram"}


def test_figure_1_shows_parts_of_words(report):
    normal, scaffolds = report.standalone["normal tokens"], report.standalone["scaffold tokens"]
    assert 0 < len(normal) <= 8
    assert 0 < len(scaffolds) <= 8
    assert {row.token for row in scaffolds} <= {fact.token for fact in report.scaffolds}
    assert not {row.token for row in normal} & {fact.token for fact in report.scaffolds}
    assert all(len(row.token) >= 3 and row.token.islower() for row in (*normal, *scaffolds))
    assert [row.alone for row in normal] == sorted((row.alone for row in normal), reverse=True)


def test_the_page_is_not_left_half_written(report, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")
    monkeypatch.setattr(
        "hf_scaffold._utils.files.os.replace", lambda *_: (_ for _ in ()).throw(OSError("full"))
    )
    with pytest.raises(OSError, match="full"):
        report.save(target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# ---- the command


def run(files, *arguments):
    return main(["report", str(files / "train.txt"), "--vocab-size", "600", *map(str, arguments)])


def test_the_command_writes_each_form(files, capsys):
    out = [files / f"report.{suffix}" for suffix in ("html", "md", "json")]
    options = [word for path in out for word in ("-o", path)]
    assert run(files, "--held-out", files / "held-out.txt", "--baseline", "bpe", *options) == 0
    page, markdown, facts = (path.read_text(encoding="utf-8") for path in out)
    assert Page(page).find("h1")
    assert markdown.startswith("# ")
    facts = json.loads(facts)
    assert facts["settings"]["special_tokens"] == ["<|endoftext|>"]
    assert facts["texts"][1]["sources"] == ["held-out.txt"]
    printed = capsys.readouterr().out
    assert f"{facts['n_scaffolds']:,} " in printed
    assert str(out[0]) in printed


def test_the_command_compares_and_takes_options(files, texts):
    hs.train_tokenizer([texts[0]], 300).save_pretrained(files / "mine")
    options = ["--compare", files / "mine", "--special-token", "<s>", "--passage", "own text"]
    options += ["--pre-tokenizer", "gpt2", "--baseline", "wordpiece"]
    options += ["--held-out", files / "held-out.txt", "--ngram-order", "3", "--robustness"]
    assert run(files, *options, "-o", files / "report.json") == 0
    facts = json.loads((files / "report.json").read_text(encoding="utf-8"))
    assert facts["tokenizers"] == ["Scaffold-BPE", "BPE", "WordPiece", str(files / "mine")]
    assert facts["settings"] == {"vocab_size": 600, "special_tokens": ["<s>"], "pre_tokenizer": "gpt2"}
    assert facts["passage"]["text"] == "own text"
    assert [row["metric"] for row in facts["rows"][-3:]] == [
        "ngram_bits_per_byte:3", "share_added:misspelled", "share_added:recased"
    ]  # fmt: skip


def test_all_baselines_and_patterns(files):
    pattern = str(files / "*.txt")  # as one that the shell left alone
    options = ["--vocab-size", "600", "--all-baselines", "--held-out", files / "held-out.txt"]
    assert main(["report", pattern, *map(str, options), "-o", str(files / "r.json")]) == 0
    facts = json.loads((files / "r.json").read_text(encoding="utf-8"))
    assert facts["tokenizers"] == ["Scaffold-BPE", *BASELINE_NAMES.values()]
    assert facts["texts"][0]["sources"] == ["*.txt"]
    train, held_out = ((files / name).stat().st_size for name in ("train.txt", "held-out.txt"))
    assert [text["n_bytes"] for text in facts["texts"]] == [train + held_out, held_out]


def piped(path):
    """A pipe that gives what a file holds, once."""
    reading, writing = os.pipe()
    data = path.read_bytes()

    def write():
        with os.fdopen(writing, "wb") as stream:
            stream.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    return f"/dev/fd/{reading}", reading, thread


def test_pipes_are_read_once(files):
    """As of `report <(zcat …)`; it was read for the counts, and was empty when its bytes were counted."""
    rest = ["--vocab-size", "600", "--baseline", "unigram"]
    assert main(["report", str(files / "train.txt"), "--held-out", str(files / "held-out.txt"), *rest,
                 "-o", str(files / "files.json")]) == 0  # fmt: skip
    pipes = [piped(files / name) for name in ("train.txt", "held-out.txt")]
    assert main(["report", pipes[0][0], "--held-out", pipes[1][0], *rest, "-o", str(files / "p.json")]) == 0
    for _, reading, thread in pipes:
        thread.join()
        os.close(reading)
    expected, found = (json.loads((files / name).read_text()) for name in ("files.json", "p.json"))
    assert [text["n_bytes"] for text in found["texts"]] == [text["n_bytes"] for text in expected["texts"]]
    assert found["texts"][0]["sources"] == [os.path.basename(pipes[0][0])]
    for part in ("changes", "scaffolds", "passage", "bytes_per_token_gain"):
        assert found[part] == expected[part]


class Again:
    """An iterable that gives its texts once, in one way or another."""

    def __init__(self, texts, is_same):
        self.texts, self.is_same = iter(texts), is_same

    def __iter__(self):
        return self.texts if self.is_same else (text for text in self.texts)


def test_texts_that_come_only_once(texts):
    expected = make_report(texts, 600, baselines=[]).to_dict()["texts"][0]["n_bytes"]
    for once in (iter(texts), (text for text in texts), map(str, texts), Again(texts, True)):
        assert make_report(once, 600, baselines=[]).to_dict()["texts"][0]["n_bytes"] == expected
    text = EvaluationText(Again(texts, False))
    text.counts(get_pre_tokenizer())
    with pytest.raises(hs.CorpusError, match=r"an Again gave its texts only once.* give a list"):
        text.n_bytes  # noqa: B018


def test_names_need_not_be_utf_8(files):
    odd = os.fsdecode(bytes(files) + b"/caf\xe9.txt")
    os.rename(files / "train.txt", odd)
    forms = [word for form in ("r.html", "r.md", "r.json") for word in ("-o", str(files / form))]
    assert main(["report", odd, "--vocab-size", "600", "--baseline", "bpe", *forms]) == 0
    assert "caf\N{REPLACEMENT CHARACTER}.txt:" in (files / "r.html").read_text(encoding="utf-8")


@pytest.fixture
def no_work(monkeypatch):
    """Fails a test as soon as a corpus is counted."""
    monkeypatch.setattr("hf_scaffold.report.report.count", lambda *_, **__: pytest.fail("work began"))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "report.pdf"], "--output: report.pdf: a report's name ends in .html, .md, .json"),
        (["-o", "{files}"], "a report's name ends in"),
        (["-o", "{files}/train.txt/report.md"], "train.txt: Not a directory"),
        (["-o", "r.md", "--held-out", "{files}/missing.txt"], "missing.txt"),
        (["-o", "r.md", "--held-out", "{files}/empty.txt"], "the held-out text is empty"),
        (["-o", "r.md", "--baseline", "bpee"], "unknown baseline 'bpee'; choose from bpe, wordpiece"),
        (["-o", "r.md", "--baseline", "bpe", "--all-baselines"], "--baseline or --all-baselines"),
        (["-o", "r.md", "--compare", "{files}/missing.json"], "there is no file"),
        (["-o", "r.md", "--pre-tokenizer", "gpt9"], "gpt9"),
        (["-o", "r.md", "--pre-tokenizer", "bert"], "bert"),
        (["-o", "r.md", "--passage", "\udce9"], "the passage holds a lone surrogate"),
        (["-o", "r.md", "--ngram-order", "2"], "measured on held-out text; give --held-out"),
        (["-o", "r.md", "--ngram-order", "0"], "--ngram-order is 0; it must be at least 1"),
        (
            ["-o", "r.md", "--vocab-size", "513"],
            "--vocab-size is 513, but special tokens and alphabet need 514",
        ),
        ([], "--output"),
    ],
)
def test_errors_come_before_work(files, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    (files / "empty.txt").touch()
    assert run(files, *(argument.format(files=files) for argument in arguments)) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in files.iterdir()} == {"train.txt", "held-out.txt", "empty.txt"}


@pytest.mark.usefixtures("no_work")
def test_a_folder_is_no_place_for_a_page(files, capsys):
    (files / "report.html").mkdir()
    assert run(files, "-o", files / "report.html") == 2
    assert "report.html: Is a directory" in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("jinja2", ["-o", "r.html"], "report"),
        ("sentencepiece", ["-o", "r.md", "--all-baselines"], "baselines"),
    ],
)
def test_a_missing_extra_is_named(files, capsys, monkeypatch, module, arguments, extra):
    monkeypatch.chdir(files)
    monkeypatch.setitem(sys.modules, module, None)
    assert run(files, *arguments) == 2
    assert f"pip install 'hf_scaffold[{extra}]'" in capsys.readouterr().err


def test_two_tokenizers_of_one_name_are_refused(texts):
    with pytest.raises(hs.ConfigurationError, match="two tokenizers are called 'BPE'"):
        hs.make_report([texts[0]], 400, baselines=[], compare_with={"BPE": str})


def test_markdown_needs_no_extra(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    report.save(tmp_path / "r.md", tmp_path / "r.json")
    assert {path.name for path in tmp_path.iterdir()} == {"r.md", "r.json"}
    with pytest.raises(hs.ConfigurationError, match="jinja2"):
        report.save(tmp_path / "r.html")
