"""The Hub, both ways: push and load over HTTP with the real huggingface_hub, against a Hub on this machine.

Two processes stand for two people's machines, each with its own HF_HOME: on one hf_scaffold is installed, on
the other it isn't. Neither has a token but where a test gives it one.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import toys
import transformers
from hub_server import Blob, Commit, HubServer

from hf_scaffold.tokenization_scaffold import release
from hf_scaffold.tokenizer.model_card import BEGIN, END

PROGRAM = Path(sysconfig.get_path("scripts"), "hf-scaffold")
# Looking for a config.json that isn't there, transformers before 5.22 forgets the token.
KEEPS_TOKENS = release(transformers.__version__) >= (5, 22)
ANN, BOB = "token-of-ann", "token-of-bob"
TEXTS = ["international zona ationa 日本 naïve", "<|eos|>Arizona\n bana\t🙂", "", " ", "\x00é\U0010ffff"]
FILES = {
    ".gitattributes",
    "scaffold.json",
    "tokenization_scaffold.py",
    "tokenizer.json",
    "tokenizer_config.json",
}

# Runs what it is told, line by line, and answers with what became of it.
SERVE = """
import json, sys
answers, sys.stdout = sys.stdout, sys.stderr
if sys.argv[1] == "absent":
    sys.modules["hf_scaffold"] = None  # importing it is a ModuleNotFoundError now
else:
    import hf_scaffold
from transformers import AutoTokenizer

def load(name, **kwargs):
    if sys.argv[1] == "absent":
        kwargs["trust_remote_code"] = True
    return AutoTokenizer.from_pretrained(name, **kwargs)

for line in sys.stdin:
    code, given = json.loads(line)
    names = {"load": load, "AutoTokenizer": AutoTokenizer, **given}
    try:
        exec(code, names)
        answer = {"result": names.get("result")}
    except Exception as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(answer), file=answers, flush=True)
"""


class Machine:
    """A process with an HF_HOME of its own, where code is run."""

    def __init__(self, hub, home, hf_scaffold):
        self.hf_scaffold = hf_scaffold
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", SERVE, hf_scaffold],
            env={**clean_environment(), **hub.environment(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
        )

    def ask(self, code, **given):
        print(json.dumps([code, given]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def run(self, code, **given):
        """What `result` is after the code."""
        answer = self.ask(code, **given)
        assert "error" not in answer, answer["message"]
        return answer["result"]

    def fail(self, code, **given):
        """The name and message of the code's error, on one line."""
        answer = self.ask(code, **given)
        return f"{answer['error']}: {' '.join(answer['message'].split())}"

    def ids(self, name, token=None, **kwargs):
        """What a pushed tokenizer makes of TEXTS."""
        code = "loaded = load(name, **kwargs)\nresult = [loaded(text)['input_ids'] for text in texts]"
        if token is not None and KEEPS_TOKENS:
            kwargs["token"] = token
        elif token is not None:
            code = f"import os\nos.environ['HF_TOKEN'] = token\n{code}\ndel os.environ['HF_TOKEN']"
        return self.run(code, name=name, token=token, kwargs=kwargs, texts=TEXTS)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}


@pytest.fixture(scope="module")
def hub():
    with HubServer({ANN: "ann", BOB: "bob"}, lfs_from=5_000) as server:
        yield server


@pytest.fixture(scope="module")
def machines(hub, tmp_path_factory):
    names = ["installed", "absent"]
    machines = {name: Machine(hub, tmp_path_factory.mktemp(name), name) for name in names}
    yield machines
    for machine in machines.values():
        machine.close()


@pytest.fixture(params=["installed", "absent"])
def machine(request, machines):
    return machines[request.param]


@pytest.fixture
def installed(machines):
    return machines["installed"]


@pytest.fixture
def absent(machines):
    return machines["absent"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved tokenizer, not to be modified."""
    path = tmp_path_factory.mktemp("saved")
    toys.tokenizer().save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory):
    """Another one, with other ids."""
    path = tmp_path_factory.mktemp("other")
    toys.tokenizer(toys.trained(toys.SIZES[1])).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def expected():
    tokenizer = toys.tokenizer()
    return [tokenizer(text)["input_ids"] for text in TEXTS]


@pytest.fixture(scope="module")
def other_expected():
    tokenizer = toys.tokenizer(toys.trained(toys.SIZES[1]))
    return [tokenizer(text)["input_ids"] for text in TEXTS]


@pytest.fixture
def repo(request):
    """A repository's name that no other test has."""
    return "ann/" + "-".join(re.findall("[a-z0-9]+", request.node.name))


PUSH = "result = load(folder).push_to_hub(repo, token=token, **kwargs).oid"


def push(machine, folder, repo, token=ANN, **kwargs):
    """Push what lies in a folder; returns the commit's id."""
    return machine.run(PUSH, folder=folder, repo=repo, token=token, kwargs=kwargs)


# ---- there and back


def test_pushed_and_loaded_with_exact_ids_wherever(hub, machine, machines, folder, repo, expected):
    push(machine, folder, repo)
    files = hub.repositories[repo].files()
    assert files.keys() - {"README.md"} == FILES
    for name in FILES - {".gitattributes"}:
        assert files[name] == Path(folder, name).read_bytes(), name
    for other in machines.values():
        assert other.ids(repo) == expected


def test_large_files_and_small_ones_both_travel(hub, installed, folder, repo):
    push(installed, folder, repo)
    kinds = {path: blob.lfs for path, blob in hub.repositories[repo].find("main")[1].files.items()}
    assert kinds["tokenizer.json"]
    assert not kinds["scaffold.json"]


@pytest.fixture(params=["installed", "absent"])
def new_machine(request, hub, tmp_path):
    machine = Machine(hub, tmp_path, request.param)
    yield machine
    machine.close()


def test_loaded_in_a_new_process_with_nothing_in_its_cache(new_machine, installed, folder, repo, expected):
    push(installed, folder, repo)
    assert new_machine.ids(repo) == expected
    assert new_machine.run("result = type(load(repo)).__module__", repo=repo).startswith(
        {"installed": "hf_scaffold.", "absent": "transformers_modules."}[new_machine.hf_scaffold]
    )


STOCK_LOADS = {
    "transformers": "PreTrainedTokenizerFast.from_pretrained(repo)(text)['input_ids']",
    "tokenizers": "Tokenizer.from_pretrained(repo).encode(text).ids",
}


@pytest.mark.parametrize("library", STOCK_LOADS)
def test_stock_loads_give_safe_ids(library, absent, installed, folder, repo):
    push(installed, folder, repo)
    code = f"""
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
result = [{STOCK_LOADS[library]} for text in texts]
"""
    loaded = absent.run(code, repo=repo, texts=TEXTS)
    stock = toys.backend(toys.trained())
    assert loaded == [stock.encode(text).ids for text in TEXTS]
    assert all(token_id < 282 for ids in loaded for token_id in ids)


def test_without_package_and_trust_auto_tokenizer_is_safe_or_asks_for_trust(absent, installed, folder, repo):
    push(installed, folder, repo)
    code = (
        "result = AutoTokenizer.from_pretrained(repo, trust_remote_code=False)('Arizona bana')['input_ids']"
    )
    answer = absent.ask(code, repo=repo)
    assert "trust_remote_code=True" in answer["message"] if "error" in answer else max(answer["result"]) < 282


def test_pushed_again_from_what_was_loaded(hub, installed, machines, folder, repo, expected):
    first = push(installed, folder, repo)
    before = hub.repositories[repo].files()
    for name, other in machines.items():
        assert push(other, repo, repo) == first  # nothing has changed: no new commit
        copy = f"{repo}-{name}"
        push(other, repo, copy)
        assert {**hub.repositories[copy].files(), "README.md": b""} == {**before, "README.md": b""}
        assert installed.ids(copy) == expected


def test_a_new_version_replaces_the_old(hub, machine, folder, other_folder, repo, expected, other_expected):
    old = push(machine, folder, repo)
    push(machine, other_folder, repo)
    assert machine.ids(repo) == other_expected != expected
    assert machine.ids(repo, revision=old) == expected


def test_tokens_added_to_what_was_loaded_go_along(machine, machines, folder, repo):
    push(machine, folder, repo)
    code = """
tokenizer = load(repo)
tokenizer.add_tokens(["zona", "<new>"])  # a scaffold token, and one that is in no vocabulary
tokenizer.push_to_hub(repo, token=token)
result = tokenizer(text)["input_ids"]
"""
    text = "Arizona zona <new> bana"
    ids = machine.run(code, repo=repo, token=ANN, text=text)
    assert {282, 283} <= set(ids)
    for other in machines.values():
        assert other.run("result = load(repo)(text)['input_ids']", repo=repo, text=text) == ids


def test_dill_can_copy_what_was_loaded(machine, folder, repo, expected):
    """`datasets` sends functions, and a class from the Hub with them, to its processes this way."""
    push(machine, folder, repo)
    code = """
import threading
import dill

result = None

def encode():
    global result
    copied = dill.loads(dill.dumps(load(repo)))
    encodings = [copied(text, return_offsets_mapping=offsets) for offsets in (False, True) for text in texts]
    result = [encoding["input_ids"] for encoding in encodings], len(copied(texts)[0].tokens)

thread = threading.Thread(target=encode, daemon=True)
thread.start()
thread.join(timeout=60)  # waiting for a lock would never end
"""
    ids, n_tokens = machine.run(code, repo=repo, texts=TEXTS)
    assert ids == [*expected, *expected]
    assert n_tokens == len(expected[0])


# ---- revisions


def test_branch_tag_and_commit(hub, machine, machines, folder, other_folder, repo, expected, other_expected):
    first = push(machine, folder, repo)
    tag = "from huggingface_hub import create_tag; create_tag(repo, tag='v1', revision=oid, token=token)"
    machine.run(tag, repo=repo, oid=first, token=ANN)
    second = push(machine, other_folder, repo, revision="larger")
    assert hub.repositories[repo].refs["refs/heads/main"] == first
    for other in machines.values():
        for revision in ("main", "v1", first, None):
            assert other.ids(repo, revision=revision) == expected, revision
        for revision in ("larger", second):
            assert other.ids(repo, revision=revision) == other_expected, revision
        assert "nowhere is not a valid git identifier" in other.fail(
            "load(repo, revision='nowhere')", repo=repo
        )


def test_pull_request(hub, machine, folder, other_folder, repo, expected, other_expected):
    push(machine, folder, repo)
    code = (
        "result = load(folder).push_to_hub(repo, token=token, create_pr=True, commit_message='Larger').pr_url"
    )
    url = machine.run(code, folder=other_folder, repo=repo, token=BOB)
    assert url == f"{hub.url}/{repo}/discussions/1"
    assert machine.ids(repo) == expected
    assert machine.ids(repo, revision="refs/pr/1") == other_expected
    push(machine, folder, repo, token=ANN, revision="refs/pr/1")
    assert machine.ids(repo, revision="refs/pr/1") == expected


def test_commit_message_and_description(hub, machine, folder, repo):
    push(machine, folder, repo, commit_message="Trained on more", commit_description="All of it")
    latest = hub.repositories[repo].history()[0]
    assert (latest.title, latest.description) == ("Trained on more", "All of it")
    push(machine, folder, repo, revision="other")
    machine.run("load(folder).push_to_hub(repo, token=token)", folder=folder, repo=f"{repo}-2", token=ANN)
    assert hub.repositories[f"{repo}-2"].history()[0].title == "Upload tokenizer"


# ---- private repositories and tokens


def test_private_repository(hub, machine, machines, folder, repo, expected):
    push(machine, folder, repo, private=True)
    assert hub.repositories[repo].private
    for other in machines.values():
        assert other.ids(repo, token=ANN) == expected
    private = f"{repo}-2"
    push(machine, folder, private, private=True)
    for token in (None, False, BOB):
        message = machine.fail("load(repo, token=token)", repo=private, token=token)
        assert f"OSError: {private} is not a local folder and is not a valid model identifier" in message
        assert "pass a token" in message
    push(machine, repo_with_token(machine, private), private)


def repo_with_token(machine, repo):
    """A local copy of a private repository."""
    code = "from huggingface_hub import snapshot_download; result = snapshot_download(repo, token=token)"
    return machine.run(code, repo=repo, token=ANN)


def test_public_unless_asked_for(hub, machine, folder, repo):
    push(machine, folder, repo)
    assert not hub.repositories[repo].private
    push(machine, folder, repo, private=True)  # it is there already: as in stock, nothing changes
    assert not hub.repositories[repo].private


def test_pushing_needs_the_owners_token(hub, machine, folder, repo):
    code = "load(folder).push_to_hub(repo, token=token)"
    for token in (None, "no token of anybody's"):
        assert "401" in machine.fail(code, folder=folder, repo=repo, token=token)
    assert "403" in machine.fail(code, folder=folder, repo=repo, token=BOB)
    assert repo not in hub.repositories
    push(machine, folder, repo)
    before = hub.repositories[repo].files()
    assert "403" in machine.fail(code, folder=folder, repo=repo, token=BOB)
    assert hub.repositories[repo].files() == before


# ---- repositories that hold more than a tokenizer


def test_other_files_stay(hub, machine, folder, repo, expected):
    machine.run(
        "from huggingface_hub import create_repo; create_repo(repo, token=token)", repo=repo, token=ANN
    )
    others = {
        "config.json": b'{"model_type": "gpt2"}',
        "model.safetensors": b"weights",
        "more/notes.txt": b"notes",
    }
    add(hub, repo, **others, **{"scaffold.json": b"of another tokenizer"})
    push(machine, folder, repo)
    files = hub.repositories[repo].files()
    assert files.keys() - {"README.md"} == FILES | others.keys()
    assert {name: files[name] for name in others} == others
    assert machine.ids(repo) == expected


def add(hub, repo, branch="main", **files):
    """Commit files as if another client had."""
    found = hub.repositories[repo]
    ref, parent = found.find(branch)
    blobs = {name: Blob(data) for name, data in files.items()}
    found.commit(ref, Commit({**parent.files, **blobs}, "by another client", "", parent.oid))


# ---- hf-scaffold push

COMMAND = """
import contextlib, io, os
from unittest import mock
from hf_scaffold.cli import commands

out, err = io.StringIO(), io.StringIO()
with mock.patch.dict(os.environ, {"HF_TOKEN": token} if token else {}):
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = commands.main(arguments)
result = [code, out.getvalue(), err.getvalue()]
"""


def command(machine, *arguments, token=ANN):
    """Exit code, stdout and stderr of `hf-scaffold push`."""
    return machine.run(COMMAND, arguments=["push", *arguments], token=token)


def test_the_command_pushes_what_push_to_hub_does(hub, installed, machines, folder, repo, expected):
    code, out, err = command(installed, folder, repo)
    assert (code, err) == (0, "")
    twin = f"{repo}-2"
    push(installed, folder, twin)
    card = hub.repositories[twin].files()["README.md"].decode()
    assert hub.repositories[repo].files() == {
        **hub.repositories[twin].files(),
        "README.md": card.replace(twin, repo).replace(twin[4:], repo[4:]).encode(),
    }
    assert hub.repositories[repo].history()[0].title == "Upload tokenizer"
    assert not hub.repositories[repo].private
    shown = re.sub(r"\s+", "", out)  # lines are wrapped
    for text in (f"{hub.url}/{repo}", hub.repositories[repo].history()[0].oid, f'"{repo}"'):
        assert text in shown
    for other in machines.values():
        assert other.ids(repo) == expected


def test_options_of_the_command(hub, installed, folder, repo, expected):
    options = ["--private", "--revision", "draft", "-m", "A first version"]
    code, out, _ = command(installed, folder, repo, *options)
    assert code == 0
    assert hub.repositories[repo].private
    assert hub.repositories[repo].files().keys() == {".gitattributes"}
    assert hub.repositories[repo].history("draft")[0].title == "A first version"
    assert 'revision="draft"' in out
    assert installed.ids(repo, token=ANN, revision="draft") == expected


def test_the_command_says_what_is_wrong_in_one_line(hub, installed, folder, repo, tmp_path):
    empty = str(tmp_path)
    for arguments, token, message in [
        ([folder, "ann/x/y"], ANN, "can't name a repository"),
        ([f"{empty}/nowhere", repo], ANN, "no such folder"),
        ([empty, repo], ANN, "there is no scaffold.json"),
        ([folder, repo], None, "there is no token for the Hub: log in"),
        (
            [folder, repo],
            "nobody's",
            "(401): Invalid credentials in Authorization header; is the token right?",
        ),
        ([folder, repo], BOB, "the token must have write access"),
    ]:
        code, out, err = command(installed, *arguments, token=token)
        assert (code, out) == (2, ""), message
        assert re.fullmatch(r"hf-scaffold: error: [^\n]+\n", err), err
        assert message in err
    assert repo not in hub.repositories


def test_the_command_without_a_network(hub, folder, repo, tmp_path):
    settings = {"HF_ENDPOINT": "http://127.0.0.1:1"}  # where nobody listens
    process = subprocess.run(
        [PROGRAM, "push", folder, repo],
        env={**clean_environment(), **hub.environment(tmp_path, ANN), **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (2, "")
    assert "can't reach the Hub at http://127.0.0.1:1" in process.stderr
    assert process.stderr.count("\n") == 1


# ---- save_pretrained(..., push_to_hub=True)


def test_save_and_push(hub, machine, folder, repo, expected, tmp_path):
    code = """
options = dict(push_to_hub=True, repo_id=repo, token=token, private=True, commit_message="Saved")
load(folder).save_pretrained(saved, **options)
"""
    machine.run(code, folder=folder, repo=repo, token=ANN, saved=str(tmp_path / "saved"))
    assert {path.name for path in (tmp_path / "saved").iterdir()} == FILES - {".gitattributes"}
    for name in FILES - {".gitattributes"}:
        assert hub.repositories[repo].files()[name] == (tmp_path / "saved" / name).read_bytes()
    assert hub.repositories[repo].history()[0].title == "Saved"
    assert machine.ids(repo, token=ANN) == expected


def test_save_and_push_to_a_branch_by_the_folders_name(hub, machine, folder, repo, tmp_path):
    name = repo.removeprefix("ann/")
    code = "load(folder).save_pretrained(saved, push_to_hub=True, token=token, revision='draft')"
    machine.run(code, folder=folder, token=ANN, saved=str(tmp_path / name))
    assert hub.repositories[repo].files("draft").keys() >= FILES
    assert hub.repositories[repo].files("main").keys() == {".gitattributes"}


def test_the_files_are_there_even_if_the_push_fails(machine, folder, repo, tmp_path, expected):
    (tmp_path / "README.md").write_text("mine")
    code = "load(folder).save_pretrained(saved, push_to_hub=True, repo_id=repo, token=token)"
    assert "403" in machine.fail(code, folder=folder, repo=repo, token=BOB, saved=str(tmp_path))
    assert machine.ids(str(tmp_path)) == expected
    machine.run(code, folder=folder, repo=repo, token=ANN, saved=str(tmp_path))
    assert (tmp_path / "README.md").read_text() == "mine"


def test_prefix_and_other_ways_of_saving_hold_for_the_push(hub, machine, folder, repo, tmp_path):
    code = """
tokenizer = load(folder)
tokenizer.chat_template = "{{ messages }}"
options = dict(filename_prefix="x", save_jinja_files=False, push_to_hub=True, repo_id=repo, token=token)
tokenizer.save_pretrained(saved, **options)
"""
    machine.run(code, folder=folder, repo=repo, token=ANN, saved=str(tmp_path))
    pushed = hub.repositories[repo].files()
    assert pushed.keys() - {"README.md", ".gitattributes"} == {path.name for path in tmp_path.iterdir()}
    assert "x-tokenizer_config.json" in pushed
    assert "chat_template.jinja" not in pushed


# ---- the model card (what it says is in test_model_card)


def test_the_card_goes_along_where_the_package_is(hub, installed, absent, folder, repo):
    push(installed, folder, repo)
    card = hub.repositories[repo].files()["README.md"].decode()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert f'AutoTokenizer.from_pretrained("{repo}", trust_remote_code=True)' in card
    assert "50.00 %" in card  # the toys' raw agreement
    push(absent, folder, f"{repo}-2")
    assert "README.md" not in hub.repositories[f"{repo}-2"].files()


def test_save_and_push_has_the_card_too(hub, installed, folder, repo, tmp_path):
    code = "load(folder).save_pretrained(saved, push_to_hub=True, repo_id=repo, token=token)"
    installed.run(code, folder=folder, repo=repo, token=ANN, saved=str(tmp_path))
    assert BEGIN in hub.repositories[repo].files()["README.md"].decode()
    assert not (tmp_path / "README.md").exists()


@pytest.mark.parametrize(
    "readme",
    [
        pytest.param(b"# My model\r\n", id="without-metadata"),
        pytest.param(b"---\n# a comment\nlicense: mit\n---\n# Mine", id="with-metadata"),
        pytest.param(b"---\n[\n---\nodd", id="with-broken-metadata"),
        pytest.param(b"no \xff UTF-8", id="not-utf8"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_readme_that_is_not_ours_stays_to_the_byte(hub, machine, folder, repo, readme):
    machine.run(
        "from huggingface_hub import create_repo; create_repo(repo, token=token)", repo=repo, token=ANN
    )
    add(hub, repo, **{"README.md": readme})
    push(machine, folder, repo)
    assert hub.repositories[repo].files()["README.md"] == readme
    assert hub.repositories[repo].files().keys() >= FILES


def test_our_part_is_written_anew_and_the_owners_part_stays(
    hub, installed, absent, folder, other_folder, repo
):
    push(installed, folder, repo)
    card = hub.repositories[repo].files()["README.md"].decode()
    card = card.replace("library_name", "license: mit\nlibrary_name").replace(BEGIN, f"before\n\n{BEGIN}")
    add(hub, repo, **{"README.md": f"{card}\nafter\n".encode()})
    push(absent, other_folder, repo)
    assert hub.repositories[repo].files()["README.md"].decode() == f"{card}\nafter\n"
    push(installed, other_folder, repo)
    new = hub.repositories[repo].files()["README.md"].decode()
    assert "of 282 tokens" in card
    assert "of 326 tokens" in new
    assert "of 282 tokens" not in new
    assert new.partition(BEGIN)[0] == card.partition(BEGIN)[0]
    assert new.rpartition(END)[2] == "\n\nafter\n"


def test_the_card_of_the_branch_counts(hub, installed, folder, other_folder, repo):
    push(installed, folder, repo)
    push(installed, other_folder, repo, revision="larger")
    assert b"of 326 tokens" in hub.repositories[repo].files("larger")["README.md"]
    add(hub, repo, "larger", **{"README.md": b"the branch's own"})
    push(installed, folder, repo, revision="larger")
    assert hub.repositories[repo].files("larger")["README.md"] == b"the branch's own"
    assert b"of 282 tokens" in hub.repositories[repo].files("main")["README.md"]


def test_tags(hub, installed, absent, folder, repo):
    push(installed, folder, repo, tags=["english", "bpe"])
    card = hub.repositories[repo].files()["README.md"].decode()
    assert "tags:\n- tokenizer\n- bpe\n- scaffold-bpe\n- english\n" in card
    add(hub, repo, **{"README.md": b"---\ntags:\n- mine\n---\n# Mine\n"})
    push(installed, folder, repo, tags=["english"])
    assert hub.repositories[repo].files()["README.md"] == b"---\ntags:\n- mine\n- english\n---\n# Mine\n"
    code = "load(folder).push_to_hub(repo, token=token, tags=['a'])"
    assert "needs hf_scaffold" in absent.fail(code, folder=folder, repo=f"{repo}-2", token=ANN)
    assert f"{repo}-2" not in hub.repositories


def test_a_card_that_cannot_be_read_is_not_taken_for_none(hub, installed, folder, repo, monkeypatch):
    push(installed, folder, repo)
    before = hub.repositories[repo].files()
    monkeypatch.setattr(hub, "broken", "/resolve/main/README.md")
    message = installed.fail(
        "load(folder).push_to_hub(repo, token=token)", folder=folder, repo=repo, token=ANN
    )
    assert "README.md" in message or "locate the file on the Hub" in message
    assert hub.repositories[repo].files() == before
