"""The report's page in a headless Chromium; left out, with a notice, where none is installed."""

import json
import re
import subprocess

import pytest

import hf_scaffold as hs

# What a reader does, written into the page's title; then everything that the page logged can be seen too.
SEARCH = """<script>
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
</script>"""


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
