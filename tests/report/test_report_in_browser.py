"""The report's page in a headless Chromium; left out, with a notice, where none is installed."""

import html
import json
import random
import re
import subprocess

import pytest
from split_cases import random_text

import hf_scaffold as hs
from hf_scaffold.report.words import token_text
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.presets import ENTRIES

# What a reader does, written into the page's title; then everything that the page logged can be seen too.
SEARCH = """<script>{
const field = document.querySelector('input[data-filters="scaffold-rows"]');
const rows = [...document.getElementById("scaffold-rows").children];
const shown = () => rows.filter((row) => row.checkVisibility()).map((row) => row.cells[0].textContent.trim());
const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
const found = { before: shown(), visible: field.checkVisibility() };
type("WANTED"); found.matching = shown(); found.says = field.closest("p").querySelector("output").textContent;
type("no such token"); found.none = shown();
type(""); found.after = shown();
found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
document.title = JSON.stringify(found);
}</script>"""


@pytest.fixture(scope="module")
def report(english_text):
    return hs.make_report([english_text[:100_000]], 900, held_out=[english_text[-9000:]], baselines=["bpe"])


@pytest.fixture(scope="module")
def open_page(browser, tmp_path_factory):
    """Opens a page without a network; gives its document afterwards and what Chromium logged."""

    def open_it(html, *options):
        folder = tmp_path_factory.mktemp("page")
        path = folder / "report.html"
        path.write_text(html, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
        ]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", *options]
        done = subprocess.run(
            [*command, path.as_uri()], capture_output=True, encoding="utf-8", timeout=120, check=True
        )
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return open_it


@pytest.fixture(scope="module")
def searched(report, open_page):
    wanted = report.scaffolds[0].token
    html = report.to_html().replace("</body>", SEARCH.replace("WANTED", wanted) + "</body>")
    document, logged = open_page(html, "--dump-dom", "--window-size=1200,900")
    title = re.search("<title>(.*?)</title>", document).group(1).replace("&amp;", "&")
    return wanted, json.loads(title), logged


def test_the_console_stays_empty(searched):
    _, _, logged = searched
    assert logged == []


def test_errors_of_a_page_would_be_seen(open_page):
    _, logged = open_page("<script>nothing.there</script>", "--dump-dom")
    assert logged


def test_search_filters_the_rows(searched, report):
    wanted, found, _ = searched
    tokens = [fact.token for fact in report.scaffolds]
    matching = [
        fact.token
        for fact in report.scaffolds
        if any(wanted.lower() in token.lower() for token in (fact.token, *fact.demolished, *fact.builds))
    ]
    assert found["visible"]
    assert len(found["before"]) == len(found["after"]) == len(tokens)
    assert len(found["matching"]) >= len(matching) > 0
    assert wanted in found["matching"]
    assert len(found["matching"]) < len(tokens)
    assert found["says"] == f"{len(found['matching']):,} of {len(tokens):,}"
    assert found["none"] == []


def test_nothing_is_wider_than_the_window(searched):
    assert not searched[1]["wide"]


def test_without_javascript_everything_is_there(report, open_page):
    without = re.sub(r"(?s)<script>.*?</script>", "", report.to_html())
    check = without.replace(
        "</body>", "<script>document.title = document.body.innerText.length</script></body>"
    )
    document, _ = open_page(check, "--dump-dom")
    assert int(re.search(r"<title>(\d+)</title>", document).group(1)) > 5000
    assert document.count('<th scope="row"><code>') == len(report.scaffolds)


def test_it_prints(report, open_page, tmp_path):
    open_page(report.to_html(), f"--print-to-pdf={tmp_path / 'report.pdf'}", "--no-pdf-header-footer")
    pdf = (tmp_path / "report.pdf").read_bytes()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 12


# ---- the box to type in

SPECIAL = ["<|endoftext|>", "<|end", " x", "</script>", "é|"]
N_TEXTS = 2500  # for each preset

# What the page answers goes into its body, as JSON.
ASK = """<script type="application/json" id="asked">ASKED</script><script>{
const asked = JSON.parse(document.getElementById("asked").textContent);
const type = (text) => { typed.value = text; typed.dispatchEvent(new Event("input")); };
const texts = (selector) => [...document.querySelectorAll(selector)].map((found) => found.textContent);
type(asked.typed);
const answers = {
  ids: asked.texts.map((text) => encoder.idsOf(text)),
  tokens: Array.from({ length: encoder.nTokens }, (_, token) => encoder.show(token)),
  visible: typed.checkVisibility(),
  sides: ["plain", "scaffold"].map((side) => ({
    pretokens: [...document.querySelectorAll(`#${side}-cut .pretoken`)].map((pretoken) => ({
      differs: pretoken.tagName === "MARK",
      tokens: [...pretoken.children].map(({ children: [shown, id] }) => [shown.textContent, +id.textContent]),
      parts: [...pretoken.children].map((token) => token.classList.contains("part")),
    })),
    heading: texts(`#${side}-heading`)[0],
  })),
  lists: texts("#try details code"),
  found: texts("#found")[0],
  demolished: texts("#demolished li"),
};
type("");
const isHidden = document.getElementById("demolished").hidden;
answers.empty = [texts("#found")[0], texts(".cut .pretoken").length, isHidden];
document.body.replaceChildren(JSON.stringify(answers));
}</script>"""


def nasty_texts(bpe, text):
    """Stretches of a text, odd characters, tokens glued together whatever they spell, special ones too."""
    rng = random.Random(7)
    tokens = [symbols_to_bytes(token) for token in bpe.vocab if token not in SPECIAL]

    def glued():
        return b"".join(rng.choices(tokens, k=rng.randrange(12))).decode(errors="replace")

    def cut():
        begin = rng.randrange(len(text) - 60)
        return text[begin : begin + rng.randrange(60)]

    def any_characters():
        codes = (rng.randrange(rng.choice([0x110000, 0x3000])) for _ in range(rng.randrange(9)))
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    def mixed():
        parts = [*SPECIAL, glued(), cut(), any_characters()]
        return "".join(rng.choices(parts, k=rng.randrange(5)))

    makers = [glued, cut, any_characters, mixed, lambda: random_text(rng)[:100]]
    return [makers[i % len(makers)]() for i in range(N_TEXTS)]


@pytest.fixture(scope="module", params=ENTRIES)
def asked(request, english_text, open_page):
    """A report by a preset; texts; and what its page makes of them."""
    rng = random.Random(3)
    report = hs.make_report(
        [english_text[:60_000], *(random_text(rng) for _ in range(40))],
        900,
        baselines=[],
        special_tokens=SPECIAL,
        pre_tokenizer=request.param,
        passage=english_text[70_000:70_800],
    )
    texts = nasty_texts(report.scaffold_bpe, english_text)
    given = json.dumps({"texts": texts, "typed": "x<|endoftext|>" + report.passage.text})
    given = given.replace("<", "\\u003c")
    page = report.to_html().replace("</body>", ASK.replace("ASKED", given) + "</body>")
    document, logged = open_page(page, "--dump-dom")
    assert logged == []
    answers = html.unescape(re.search("<body>(.*)</body>", document, re.DOTALL).group(1))
    return report, texts, json.loads(answers)


def test_the_page_encodes_as_python_does(asked):
    report, texts, answers = asked
    plain, scaffold = (
        bpe.encoder().encode_batch(texts, allowed_special="all")
        for bpe in (report.plain_bpe, report.scaffold_bpe)
    )
    assert plain != scaffold
    for text, *expected, found in zip(texts, plain, scaffold, answers["ids"], strict=True):
        assert found == expected, repr(text)


def test_plain_bpe_is_the_first_merges_of_scaffold_bpe(asked):
    """So the page needs only one list of them."""
    report, _, _ = asked
    n = len(report.plain_bpe.merges)
    assert n < len(report.scaffold_bpe.merges)
    assert report.scaffold_bpe.merges[:n] == report.plain_bpe.merges


def test_the_page_spells_tokens_as_python_does(asked):
    report, _, answers = asked
    bpe = report.scaffold_bpe
    known = [*bpe.tokens[: -len(bpe.merges) + len(bpe.scaffold_tokens)], *bpe.merged_tokens]
    assert answers["tokens"] == [*SPECIAL, *map(token_text, known[len(SPECIAL) :])]


def test_what_is_typed_is_shown_on_both_sides(asked):
    report, _, answers = asked
    assert answers["visible"]
    pieces = report.passage.pieces
    for side, bpe, shown in zip(
        ("plain", "scaffold"), (report.plain_bpe, report.scaffold_bpe), answers["sides"], strict=True
    ):
        first, special, *rest = shown["pretokens"]
        assert first["tokens"] == [["x", bpe.vocab["x"]]]
        assert special["tokens"] == [["<|endoftext|>", 0]]
        assert [pretoken["tokens"] for pretoken in rest] == [
            [[token_text(token), bpe.vocab[token]] for token in getattr(piece, side)] for piece in pieces
        ]
        assert [pretoken["differs"] for pretoken in rest] == [piece.differs for piece in pieces]
        ids = [token_id for pretoken in shown["pretokens"] for _, token_id in pretoken["tokens"]]
        assert f" {len(ids):,} tokens" in shown["heading"]
        assert str(ids) in answers["lists"]
    n_differing = sum(piece.differs for piece in pieces)
    assert answers["found"] == f"{n_differing} of {len(pieces) + 2} pre-tokens are encoded differently."
    assert answers["empty"] == ["", 0, True]


def test_what_was_demolished_is_marked(asked):
    """Parts together spell scaffold tokens, which the list names; nothing else is marked."""
    report, _, answers = asked
    plain, scaffold = answers["sides"]
    assert not any(any(pretoken["parts"]) for pretoken in plain["pretokens"])
    demolish_map = report.scaffold_bpe.demolish_map
    listed = {
        f"{token_text(token)} into {' '.join(map(token_text, parts))}": parts
        for token, parts in demolish_map.items()
    }
    assert answers["demolished"]
    assert {item.strip() for item in answers["demolished"]} <= set(listed)
    taken_apart = {tuple(map(token_text, listed[item.strip()])) for item in answers["demolished"]}
    for pretoken in scaffold["pretokens"]:
        shown = zip(pretoken["tokens"], pretoken["parts"], strict=True)
        marked = [token for (token, _), is_part in shown if is_part]
        while marked:
            parts = next(parts for parts in taken_apart if tuple(marked[: len(parts)]) == parts)
            del marked[: len(parts)]
