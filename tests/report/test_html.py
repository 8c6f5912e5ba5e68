"""What notebooks show: well-formed HTML that says what is true, with every token escaped."""

from html.parser import HTMLParser

import pytest

import hf_scaffold as hs
from hf_scaffold.report import html

TEXTS = ["it was the best of times <b>&amp; it was the worst of times</b> " * 9]


class Page(HTMLParser):
    """Text by element, and whether every element is closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "b", "table", "tr", "td", "th", "span")
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1], data))

    def of(self, tag):
        return [text for each, text in self.texts if each == tag]


@pytest.fixture(scope="module")
def bpe():
    return hs.train(hs.count(TEXTS), 266, special_tokens=["<s>", "&amp;x"])


def test_encoder(bpe):
    encoder = bpe.encoder()
    page = Page(encoder._repr_html_())
    specials, tokens = page.of("span")[:2], page.of("span")[2:]
    assert specials == ["<s>", "&amp;x"]
    assert "".join(tokens).replace("Ġ", " ") == html.SAMPLE
    assert len(tokens) == len(encoder.encode(html.SAMPLE))
    assert f"{len(encoder):,}" in page.of("td")


def test_artifact(bpe):
    page = Page(bpe._repr_html_())
    assert {html.readable(token) for token in bpe.scaffold_tokens[:1]} <= set(page.of("span"))
    assert page.of("th") == ["scaffold token", "demolished to", "builds"]


def test_comparisons(bpe):
    plain = hs.train(hs.count(TEXTS), 266, special_tokens=["<s>", "&amp;x"], scaffold=False)
    table = hs.compare_tokenizers({"plain <1>": plain, "ours": bpe}, hs.count(TEXTS))
    page = Page(table._repr_html_())
    assert page.of("th") == ["plain <1>", "ours"]
    row = table.row("bytes_per_token")
    assert {row.shown(name) for name in row.best} <= set(page.of("b"))
    evaluations = [table.evaluations["train"][name] for name in ("plain <1>", "ours")]
    change = hs.compare_vocabularies(*evaluations)
    expected = [html.readable(token) for token in (*change.removed, *change.added)]
    assert Page(change._repr_html_()).of("span") == expected


def test_report():
    report = hs.make_report(TEXTS, 266, baselines=[], passage="it was <b>")
    page = Page(report._repr_html_())
    n_plain, n_scaffold = report.passage.n_tokens
    tokens = page.of("span")
    assert len(tokens) == n_plain + n_scaffold
    assert "".join(tokens[:n_plain]) == "".join(tokens[n_plain:]) == "itĠwasĠ<b>"


def test_an_encoder_of_characters():
    bpe = hs.train(hs.count(TEXTS, alphabet="chars"), 30, unk_token="<unk>")
    assert Page(bpe.encoder()._repr_html_()).of("span")[0] == "<unk>"
