"""Tokenizers from folders and by name: malformed ones, and names that the Hub can't be asked for."""

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import malformed
import pytest
import toys
from huggingface_hub import constants
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.cli import workflow
from hf_scaffold.errors import ConfigurationError, HubError
from hf_scaffold.evaluation import adapters
from hf_scaffold.lifecycle import audit
from hf_scaffold.shards.index import ShardIndex
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
from hf_scaffold.tokenizer import hub, model_card

TEXTS = ["the cat sat on the mat", "the other cat"] * 5


# ---- no Hub


class Down(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(503)
        self.end_headers()

    do_GET = do_POST = do_HEAD  # noqa: N815  # http.server's names

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture(params=["refuses", "is down"])
def no_hub(request, monkeypatch, tmp_path):
    """A Hub that refuses connections, or answers 503; waiting for it to come back fails the test."""
    server = HTTPServer(("127.0.0.1", 0), Down)
    endpoint = f"http://127.0.0.1:{server.server_port}"
    if request.param == "is down":
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
    else:
        server.server_close()

    def wait(seconds):
        pytest.fail(f"waits {seconds} s for the Hub")

    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", wait)
    monkeypatch.chdir(tmp_path)
    yield endpoint
    if request.param == "is down":
        server.shutdown()
        thread.join()
        server.server_close()


ENTRANCES = {
    "load_scaffold": lambda: workflow.load_scaffold("no-such-name"),
    "load_artifact": lambda: workflow.load_artifact("no-such-name"),
    "load_tokenizer": lambda: hs.load_tokenizer("no-such-name"),
    "audit": lambda: hs.audit_tokenizer("no-such-name", TEXTS),
    "compare": lambda: hs.compare_tokenizers({"x": "no-such-name"}, TEXTS),
    "report": lambda: hs.make_report(TEXTS, 270, compare_with={"x": "no-such-name"}, baselines=[]),
}


@pytest.mark.parametrize("name", ENTRANCES)
def test_a_name_without_folder_is_told_at_once_where_there_is_no_hub(no_hub, name):
    with pytest.raises(FileNotFoundError, match="there is no folder no-such-name here") as raised:
        ENTRANCES[name]()
    assert no_hub in str(raised.value)


def test_a_push_without_a_hub(no_hub, tmp_path, monkeypatch):
    toys.tokenizer().save_pretrained(tmp_path / "toy")
    monkeypatch.setattr(hub, "get_token", lambda: "token")
    with pytest.raises(HubError):
        hub.push_folder(tmp_path / "toy", "me/toy")


def test_a_repository_without_any_commit_has_no_card(monkeypatch):
    asked = []

    def fail(*arguments, revision, **kwargs):
        asked.append(revision)
        assert len(asked) < 5
        raise no_revision()

    def no_revision():
        return type("NoRevision", (model_card.RevisionNotFoundError,), {"__init__": lambda self: None})()

    monkeypatch.setattr(model_card, "hf_hub_download", fail)
    assert model_card._card_in_repository("me/toy", "dev", None) is None
    assert asked == ["dev", None]


# ---- strangers' tokenizers


def stranger(vocab, merges=()):
    return Tokenizer(models.BPE(vocab, list(merges)))


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ({"a": 0, "b": 1, "c": 1}, "'b' and 'c' share the id 1"),
        ({"a": 0, "b": 2**32 - 1}, "the id of 'b' is 4294967295, too large"),
    ],
)
def test_ids_that_nothing_can_be_made_of(vocab, message):
    for use in (
        lambda: hs.audit_tokenizer(stranger(vocab), TEXTS),
        lambda: hs.convert_tokenizer(stranger(vocab), TEXTS),
        lambda: hs.evaluate(stranger(vocab), TEXTS),
    ):
        with pytest.raises(ConfigurationError, match=message):
            use()


def test_a_broken_tokenizer_json_is_named(tmp_path):
    path = tmp_path / "x.json"
    panics = {
        "type": "BPE",
        "continuing_subword_prefix": "##",
        "vocab": {"a": 0, "b": 1},
        "merges": [["a", "b"]],
    }
    for content in ("", "{", "[]", malformed.NESTED, json.dumps({"model": panics})):
        path.write_text(content)
        for use in (lambda: hs.load_tokenizer(path), lambda: hs.audit_tokenizer(path, TEXTS)):
            with pytest.raises(ConfigurationError, match=r"x\.json can't be read as a tokenizer"):
                use()


def test_a_broken_folder_of_a_stock_tokenizer_is_named(tmp_path):
    PreTrainedTokenizerFast(tokenizer_object=stranger({"a": 0})).save_pretrained(tmp_path)
    for name in ("tokenizer_config.json", "tokenizer.json"):
        whole = (tmp_path / name).read_text()
        for content in ("", "[]", "5", malformed.NESTED):
            (tmp_path / name).write_text(content)
            for use in (lambda: hs.load_tokenizer(tmp_path), lambda: hs.audit_tokenizer(tmp_path, TEXTS)):
                with pytest.raises(ValueError, match=str(tmp_path)):
                    use()
        (tmp_path / name).write_text(whole)


def test_the_class_from_the_hub_is_told_from_a_stock_one(tmp_path):
    """Beside a tokenizer lies a copy of the class: another class, as far as isinstance goes."""
    toys.tokenizer().save_pretrained(tmp_path)
    space = {"__name__": "copy"}
    exec((tmp_path / "tokenization_scaffold.py").read_text(), space)
    copy, own = space["ScaffoldTokenizerFast"].from_pretrained(tmp_path), toys.tokenizer()
    assert not isinstance(copy, ScaffoldTokenizerFast)
    assert isinstance(adapters.encoder_of(copy, None), adapters.ArtifactEncoder)
    assert hs.evaluate(copy, ["zona Arizona"]).n_tokens == hs.evaluate(own, ["zona Arizona"]).n_tokens
    with pytest.raises(ConfigurationError, match="is a Scaffold-BPE already"):
        hs.audit_tokenizer(copy, TEXTS)


# ---- no look counts as a change


def refused_audit(tokenizer):
    with pytest.raises(ConfigurationError):
        hs.audit_tokenizer(tokenizer, TEXTS)


USES = {
    "nothing": lambda tokenizer, folder: None,
    "make_card": lambda tokenizer, folder: model_card.make_card(tokenizer, "me/toy"),
    "write_shards": lambda tokenizer, folder: hs.write_shards(
        folder / "text.txt", tokenizer, folder / "shards"
    ),
    "evaluate": lambda tokenizer, folder: hs.evaluate(tokenizer, TEXTS),
    "compare": lambda tokenizer, folder: hs.compare_tokenizers({"x": tokenizer}, TEXTS),
    "report": lambda tokenizer, folder: hs.make_report(
        TEXTS, 270, compare_with={"x": tokenizer}, baselines=[]
    ),
    "save": lambda tokenizer, folder: tokenizer.save_pretrained(folder / "saved"),
    "like": lambda tokenizer, folder: hs.train_tokenizer(TEXTS, vocab_size=270, like=tokenizer),
    "retrain": lambda tokenizer, folder: tokenizer.train_new_from_iterator(TEXTS, 270, show_progress=False),
    "audit": lambda tokenizer, folder: refused_audit(tokenizer),
    "calls": lambda tokenizer, folder: tokenizer.decode(tokenizer(["the cat"], padding=True)["input_ids"][0]),
    "arrays": lambda tokenizer, folder: tokenizer.encode_batch_to_arrays(["the cat"]),
    "path": lambda tokenizer, folder: tokenizer.explain_path("the cat"),
    "dropout": lambda tokenizer, folder: tokenizer("the cat", dropout=0.1, seed=1),
    "added": lambda tokenizer, folder: tokenizer.add_tokens(["<more>"]),
}


@pytest.mark.parametrize("name", USES)
def test_none_of_our_own_functions_says_that_the_backend_may_change(tmp_path, name):
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    made = [
        hs.train_tokenizer(TEXTS, vocab_size=270, pad_token="<pad>"),
        hs.train_tokenizer(
            TEXTS, vocab_size=270, special_tokens=["<pad>"], pad_token="<pad>", like=toys.tokenizer()
        ),
    ]
    made[0].save_pretrained(tmp_path / "toy")
    made.append(ScaffoldTokenizerFast.from_pretrained(tmp_path / "toy"))
    for i, tokenizer in enumerate(made):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "text.txt").write_text("\n".join(TEXTS))
        result = USES[name](tokenizer, folder)
        assert "backend is known" not in tokenizer.cache
        if isinstance(result, ScaffoldTokenizerFast):
            assert "backend is known" not in result.cache
    assert made[0].backend_tokenizer is not None
    assert "backend is known" in made[0].cache


def test_a_conversion_is_not_known_either():
    conversion = hs.convert_tokenizer(
        stranger({"u": 0, "g": 1, "h": 2, "ug": 3, "hug": 4}, [("u", "g"), ("h", "ug")]), ["hug"] * 3
    )
    assert "backend is known" not in conversion.tokenizer.cache
    audited = PreTrainedTokenizerFast(tokenizer_object=stranger({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    assert audit.audit_tokenizer(audited, ["ab"]).n_tokens == 3


# ---- other files


def test_whatever_is_in_an_index_of_shards(tmp_path):
    (tmp_path / "text.txt").write_text("the cat\n" * 50)
    index = hs.write_shards(tmp_path / "text.txt", toys.tokenizer(), tmp_path / "shards")
    path = tmp_path / "shards" / "index.json"
    content = json.loads(path.read_bytes())
    for what, data in [*((repr(b), b) for b in malformed.NO_JSON), *malformed.variants(content)]:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        try:
            try:
                found = ShardIndex.load(path.parent)
            except hs.ArtifactError:
                continue
            assert (found.n_documents, found.n_tokens, found.n_bytes) >= (0, 0, 0)
            try:
                hs.write_shards(tmp_path / "text.txt", toys.tokenizer(), tmp_path / "shards")
            except (hs.ConfigurationError, hs.ArtifactError):
                continue
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        assert ShardIndex.load(path.parent) == index


def test_whatever_is_in_a_table_of_counts(tmp_path):
    """Of the damage done to the file's end, where its schema and metadata lie."""
    path = tmp_path / "counts.parquet"
    hs.count(TEXTS).save(path)
    whole, generator, n_refused = path.read_bytes(), random.Random(3), 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(generator.choice([1, 1, 3])):
            data[generator.randrange(max(0, len(data) - 900), len(data))] = generator.randrange(256)
        path.write_bytes(data)
        try:
            assert sum(hs.PreTokenCounts.load(path).values()) > 0
        except hs.ArtifactError:
            n_refused += 1
    assert n_refused > 500


def test_ids_of_callables_that_would_cost_more_than_any_vocabulary():
    for ids in ([1 << 40], [-1], [5, 1 << 24]):
        with pytest.raises(ConfigurationError, match="no vocabulary is so large"):
            hs.evaluate(lambda text, ids=ids: ids, TEXTS)
    assert hs.evaluate(lambda text: [5], ["a"]).vocab_size == 6
