"""What the demo says is so: every figure it shows follows from the two artifacts by other means."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.cli import demo
from hf_scaffold.cli.commands import main
from hf_scaffold.errors import ArtifactError
from hf_scaffold.evaluation.inspection import readable
from hf_scaffold.text.byte_level import bytes_to_symbols


@pytest.fixture(scope="module")
def outcome():
    return demo.run_demo()


@pytest.fixture(scope="module")
def token_counts(outcome):
    """Occurrences of each token in the text, by the tokenizers library and demolish()."""
    return {
        "plain": Counter(dict(recount(outcome.plain, outcome.counts))),
        "scaffold": Counter(dict(recount(outcome.scaffold, outcome.counts))),
    }


def recount(bpe, counts):
    backend = Tokenizer(BPE(vocab=bpe.vocab, merges=bpe.merges))
    total = Counter()
    for pretoken, n in counts.items():
        for token in backend.encode(bytes_to_symbols(pretoken)).tokens:
            for part in bpe.demolish(token):
                total[part] += n
    return total


def shown(capsys, *arguments):
    assert main(["demo", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_text_is_the_one_its_readme_describes():
    text = demo.TEXT.read_bytes()
    readme = (demo.TEXT.parent / "README.md").read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    assert f"{len(text):,} bytes" in readme
    assert "CC BY 4.0" in readme
    assert text.startswith(b"Wuthering Heights\nA novel,\nBy Ellis Bell,\n")
    assert text.endswith(b"the sleepers in that quiet earth.\n")
    assert len(re.findall(rb"^CHAPTER", text, re.MULTILINE)) == 34
    assert hashlib.sha256(text).hexdigest().startswith("942c7b48f71b8243")


def test_both_have_the_size_that_is_compared(outcome):
    assert outcome.plain.vocab_size == outcome.scaffold.vocab_size == demo.VOCAB_SIZE
    assert not outcome.plain.scaffold_tokens
    assert outcome.scaffold.scaffold_tokens


def test_bytes_per_token(outcome, token_counts):
    n_bytes = demo.TEXT.stat().st_size
    plain, scaffold = (n_bytes / token_counts[name].total() for name in ("plain", "scaffold"))
    found = [evaluation.bytes_per_token for evaluation in outcome.evaluations]
    assert found == pytest.approx([plain, scaffold], rel=1e-12)


def test_rare_tokens(outcome, token_counts):
    assert outcome.rare_tokens == tuple(
        sum(len(token) > 1 and total[token] <= demo.RARE for token in bpe.tokens[1:])
        for bpe, total in (
            (outcome.plain, token_counts["plain"]),
            (outcome.scaffold, token_counts["scaffold"]),
        )
    )


def test_removed_and_added_tokens(outcome, token_counts):
    removed, added = outcome.removed(), outcome.added()
    assert {token for token, _ in removed} == set(outcome.plain.tokens) & set(
        outcome.scaffold.scaffold_tokens
    )
    assert {token for token, _ in added} == set(outcome.scaffold.tokens) - set(outcome.plain.tokens)
    assert [n for _, n in removed] == sorted(token_counts["plain"][token] for token, _ in removed)
    assert all(n == token_counts["plain"][token] for token, n in removed)
    assert all(n == token_counts["scaffold"][token] for token, n in added)
    assert [n for _, n in added] == sorted((n for _, n in added), reverse=True)


def test_splits_are_those_of_the_artifacts(outcome):
    splits = outcome.splits()
    for split in [*splits[:50], *splits[-50:]]:
        assert split.count == outcome.counts[split.pretoken]
        assert split.plain != split.scaffold
        for bpe, tokens in ((outcome.plain, split.plain), (outcome.scaffold, split.scaffold)):
            assert tokens == tuple(bpe.tokens[token_id] for token_id in bpe.encode([split.pretoken])[0])
    gains = [(len(split.plain) - len(split.scaffold)) * split.count for split in splits]
    assert gains == sorted(gains, reverse=True)


def test_screen_shows_the_facts(outcome, capsys):
    screen = shown(capsys)
    rows = [re.split(r"\s{2,}", line.strip()) for line in screen.splitlines()]
    assert ["tokens", "4,000", "4,000"] in rows
    assert [
        "bytes per token on this text",
        *(f"{found.bytes_per_token:.3f}" for found in outcome.evaluations),
    ] in rows
    assert ["scaffold tokens, which have no id", "0", f"{len(outcome.scaffold.scaffold_tokens):,}"] in rows
    for token, n in outcome.removed()[:3]:
        assert [readable(token), f"{n:,}"] in [row[:2] for row in rows]
    best = outcome.splits()[0]
    sides = (" ".join(map(readable, tokens)) for tokens in (best.plain, best.scaffold))
    assert [*sides, f"{best.count:,}"] in rows


def test_kept_tokenizer_is_the_one_trained(outcome, tmp_path, capsys):
    folder = tmp_path / "kept"
    screen = shown(capsys, "-o", folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(tokenizer, hs.ScaffoldTokenizerFast)
    text = demo.TEXT.read_text(encoding="utf-8")
    n_ids = len(tokenizer(text)["input_ids"])
    assert f"gave {n_ids:,} ids" in screen
    assert str(folder) in screen
    kept = hs.ScaffoldBPE.load(folder / "artifact")
    assert (kept.merges, kept.vocab) == (outcome.scaffold.merges, outcome.scaffold.vocab)


def test_temporary_folder_goes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown(capsys)
    assert list(tmp_path.iterdir()) == []


def test_an_inexact_reload_is_no_success(outcome, tmp_path, monkeypatch):
    other = AutoTokenizer.from_pretrained

    def without_scaffolds(folder):
        tokenizer = other(folder)
        monkeypatch.setattr(
            type(tokenizer), "_encode_plus", lambda self, text, **_: {"input_ids": [self.eos_token_id]}
        )
        return tokenizer

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", without_scaffolds)
    with pytest.raises(ArtifactError, match="other ids"):
        demo.check_reload(outcome.scaffold, Path(tmp_path))
