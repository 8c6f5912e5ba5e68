"""A Hub on 127.0.0.1: enough of huggingface.co's HTTP interface for the real huggingface_hub.

    with HubServer({"token-of-ann": "ann"}) as hub:
        subprocess.run(command, env={**os.environ, **hub.environment(home, token="token-of-ann")})

Repositories live in memory, as refs and commits that hold all their files. Files of `lfs_from` bytes or more
go the way of large files. Private repositories answer like the real ones: whoever may not see one is told
that there is none.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

MAIN = "refs/heads/main"


@dataclass(frozen=True)
class Blob:
    """A file's content."""

    data: bytes
    lfs: bool = False

    @property
    def git_oid(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.git_oid


@dataclass(frozen=True)
class Commit:
    """All files at one point of a repository's history."""

    files: dict[str, Blob]
    title: str = "initial commit"
    description: str = ""
    parent: str | None = None

    @property
    def oid(self) -> str:
        tree = [(path, blob.etag) for path, blob in sorted(self.files.items())]
        return hashlib.sha1(repr((tree, self.title, self.description, self.parent)).encode()).hexdigest()


@dataclass
class Repository:
    """Refs by their full names, and commits by their ids."""

    owner: str
    private: bool = False
    refs: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    pull_requests: int = 0

    def __post_init__(self) -> None:
        self.commit(MAIN, Commit({".gitattributes": Blob(b"*.bin filter=lfs diff=lfs merge=lfs -text\n")}))

    def commit(self, ref: str, commit: Commit) -> str:
        self.commits[commit.oid] = commit
        self.refs[ref] = commit.oid
        return commit.oid

    def find(self, revision: str) -> tuple[str, Commit]:
        """The ref and the commit that a revision names: branch, tag, full ref or commit id."""
        for ref in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if ref in self.refs:
                return ref, self.commits[self.refs[ref]]
        if revision in self.commits:
            return "", self.commits[revision]
        raise RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """Path to content, at a revision."""
        return {path: blob.data for path, blob in self.find(revision)[1].files.items()}

    def history(self, revision: str = "main") -> list[Commit]:
        """The commits that led to a revision, the latest first."""
        history = [self.find(revision)[1]]
        while history[-1].parent is not None:
            history.append(self.commits[history[-1].parent])
        return history


class RefusedError(Exception):
    """An answer that is an error; the Hub's clients go by the code, people read the message."""

    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        self.status, self.code, self.message = status, code, message


class HubServer(ThreadingHTTPServer):
    """Serves while its `with` block runs.

    Args:
        users: Token to user name.
        lfs_from: Bytes from which a file is a large one.
    """

    daemon_threads = True

    def __init__(self, users: dict[str, str], lfs_from: int = 10_000) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.users = users
        self.lfs_from = lfs_from
        self.repositories: dict[str, Repository] = {}
        self.large_files: dict[str, Blob] = {}  # uploaded, by sha256
        self.requests: list[str] = []  # method and path of each, in order
        self.broken: str | None = None  # where a path ends like this, the server is out of order
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def storage_url(self) -> str:
        """Where large files are: as with the real Hub on another host, where clients send no token."""
        return f"http://localhost:{self.server_port}"

    def environment(self, home: Any, token: str | None = None) -> dict[str, str]:
        """Variables for a process that shall use this Hub, with caches of its own."""
        settings = {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_CACHE": f"{home}/hub",
            "HF_MODULES_CACHE": f"{home}/modules",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_OFFLINE": "0",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        return {**settings, "HF_TOKEN": token} if token else settings

    def __enter__(self) -> "HubServer":
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


Route = Callable[..., Any]
ROUTES: list[tuple[str, re.Pattern[str], Route]] = []


def route(method: str, pattern: str) -> Callable[[Route], Route]:
    """The handler of a method and a path, in which `{repo}`, `{rev}` and `{path}` stand for names."""
    named = pattern.format(repo=r"(?P<repo>[\w.-]+/[\w.-]+)", rev="(?P<rev>[^/]+)", path="(?P<path>.+)")

    def add(handler: Route) -> Route:
        ROUTES.append((method, re.compile(named), handler))
        return handler

    return add


class Handler(BaseHTTPRequestHandler):
    """One request: finds the route, answers with JSON or bytes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets: else the second waits 40 ms
    server: HubServer

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(f"{self.command} {unquote(self.path)}")
        if self.server.broken and url.path.endswith(self.server.broken):
            return self.refuse(RefusedError(403, "", "out of order"))
        method = "GET" if self.command == "HEAD" else self.command
        for of_method, pattern, handler in ROUTES:
            if of_method == method and (found := pattern.fullmatch(url.path)):
                try:
                    with self.server.lock:
                        names = {name: unquote(part) for name, part in found.groupdict().items()}
                        answer = handler(self, **names)
                except RefusedError as refused:
                    self.refuse(refused)
                else:
                    if answer is not None:
                        self.answer(json.dumps(answer).encode(), {"Content-Type": "application/json"})
                return None
        return self.refuse(RefusedError(501, "", f"this Hub has no {self.command} {self.path}"))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815  # the names http.server calls

    def answer(self, data: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, refused: RefusedError) -> None:
        headers = {"Content-Type": "application/json"}
        if refused.code:
            headers["X-Error-Code"] = refused.code
        if refused.message:
            headers["X-Error-Message"] = refused.message
        self.answer(json.dumps({"error": refused.message}).encode(), headers, refused.status)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr: `HubServer.requests` has them all."""

    # ---- who may do what

    @property
    def user(self) -> str | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.server.users:
            raise RefusedError(401, "", "Invalid credentials in Authorization header")
        return self.server.users.get(token)

    def login(self) -> str:
        if self.user is None:
            raise RefusedError(401, "", "Invalid username or password.")
        return self.user

    def readable(self, name: str) -> Repository:
        repo = self.server.repositories.get(name)
        if repo is None or (repo.private and self.user != repo.owner):
            raise RefusedError(404 if self.user else 401, "RepoNotFound", "Repository not found")
        return repo

    def writable(self, name: str) -> Repository:
        user, repo = self.login(), self.readable(name)
        if user != repo.owner:
            raise RefusedError(403, "", "Forbidden: you must have write access to this repository")
        return repo

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"{}")


# ---- accounts and repositories


@route("GET", "/api/whoami-v2")
def whoami(request: Handler) -> Any:
    return {"type": "user", "name": request.login(), "orgs": [], "auth": {"type": "access_token"}}


@route("POST", "/api/repos/create")
def create(request: Handler) -> Any:
    user, asked = request.login(), request.json
    owner = asked.get("organization") or user
    name = f"{owner}/{asked['name']}"
    answer = {"url": f"{request.server.url}/{name}", "name": name}
    if owner != user:
        raise RefusedError(
            403, "", f"You don't have the rights to create a model under the namespace {owner!r}"
        )
    if name in request.server.repositories:
        request.answer(json.dumps({**answer, "error": "You already created this repo"}).encode(), {}, 409)
        return None
    private = asked.get("visibility") == "private" or bool(asked.get("private"))
    request.server.repositories[name] = Repository(owner, private)
    return answer


@route("DELETE", "/api/repos/delete")
def delete(request: Handler) -> Any:
    name = f"{request.json.get('organization') or request.login()}/{request.json['name']}"
    request.writable(name)
    del request.server.repositories[name]
    return {}


@route("GET", "/api/models/{repo}")
def model_info(request: Handler, repo: str) -> Any:
    return revision_info(request, repo, "main")


@route("GET", "/api/models/{repo}/revision/{rev}")
def revision_info(request: Handler, repo: str, rev: str) -> Any:
    found = request.readable(repo)
    _, commit = found.find(rev)
    names = [{"rfilename": path} for path in sorted(commit.files)]
    return {"id": repo, "modelId": repo, "sha": commit.oid, "private": found.private, "siblings": names}


@route("GET", "/api/models/{repo}/tree/{rev}")
def tree(request: Handler, repo: str, rev: str) -> Any:
    return folder(request, repo, rev, "")


@route("GET", "/api/models/{repo}/tree/{rev}/{path}")
def folder(request: Handler, repo: str, rev: str, path: str) -> Any:
    _, commit = request.readable(repo).find(rev)
    prefix = f"{path}/" if path else ""
    files = {name: blob for name, blob in commit.files.items() if name.startswith(prefix)}
    if path and not files:
        raise RefusedError(404, "EntryNotFound", f"{path} does not exist on {rev!r}")
    if request.query.get("recursive") not in (["true"], ["True"]):
        files = {name: blob for name, blob in files.items() if "/" not in name.removeprefix(prefix)}
    return [entry(name, blob) for name, blob in sorted(files.items())]


@route("POST", "/api/models/{repo}/paths-info/{rev}")
def paths_info(request: Handler, repo: str, rev: str) -> Any:
    _, commit = request.readable(repo).find(rev)
    asked = parse_qs(request.body.decode())["paths"]
    return [entry(path, commit.files[path]) for path in asked if path in commit.files]


def entry(path: str, blob: Blob) -> dict[str, Any]:
    known = {"type": "file", "path": path, "size": len(blob.data), "oid": blob.git_oid}
    return (
        {**known, "lfs": {"oid": blob.sha256, "size": len(blob.data), "pointerSize": 130}}
        if blob.lfs
        else known
    )


# ---- branches and tags


@route("GET", "/api/models/{repo}/refs")
def refs(request: Handler, repo: str) -> Any:
    found = request.readable(repo).refs
    kinds = {"branches": "refs/heads/", "tags": "refs/tags/", "converts": "refs/convert/"}
    return {
        kind: [
            {"name": ref.removeprefix(prefix), "ref": ref, "targetCommit": oid}
            for ref, oid in found.items()
            if ref.startswith(prefix)
        ]
        for kind, prefix in kinds.items()
    }


@route("POST", "/api/models/{repo}/branch/{rev}")
def create_branch(request: Handler, repo: str, rev: str) -> Any:
    return point(request, repo, f"refs/heads/{rev}", request.json.get("startingPoint", "main"))


@route("POST", "/api/models/{repo}/tag/{rev}")
def create_tag(request: Handler, repo: str, rev: str) -> Any:
    return point(request, repo, f"refs/tags/{request.json['tag']}", rev)


def point(request: Handler, repo: str, ref: str, revision: str) -> Any:
    found = request.writable(repo)
    if ref in found.refs:
        raise RefusedError(409, "", f"Reference already exists: {ref}")
    found.refs[ref] = found.find(revision)[1].oid
    return {}


# ---- commits


@route("POST", "/api/validate-yaml")
def validate_yaml(request: Handler) -> Any:
    block = re.match(r"---\n(.*?)\n?---\n", request.json["content"], re.DOTALL)
    if block is None:
        return {"errors": [], "warnings": [{"message": "empty or missing yaml metadata in repo card"}]}
    try:
        metadata = yaml.safe_load(block[1])
        error = "" if isinstance(metadata or {}, dict) else "the metadata is no mapping"
    except yaml.YAMLError as problem:
        error = str(problem)
    if error:
        request.answer(json.dumps({"errors": [{"message": error}], "warnings": []}).encode(), {}, 400)
        return None
    return {"errors": [], "warnings": []}


@route("POST", "/api/models/{repo}/preupload/{rev}")
def preupload(request: Handler, repo: str, rev: str) -> Any:
    _, commit = may_commit(request, repo).find(rev)
    answers = []
    for file in request.json["files"]:
        old = commit.files.get(file["path"])
        mode = "lfs" if file["size"] >= request.server.lfs_from else "regular"
        answers.append(
            {
                "path": file["path"],
                "uploadMode": mode,
                "shouldIgnore": False,
                "oid": old.etag if old and old.lfs == (mode == "lfs") else None,
            }
        )
    return {"files": answers}


@route("POST", "/api/models/{repo}/commit/{rev}")
def commit(request: Handler, repo: str, rev: str) -> Any:
    found = may_commit(request, repo)
    ref, parent = found.find(rev)
    if not ref.startswith(("refs/heads/", "refs/pr/")):
        raise RefusedError(400, "", f"{rev} is no branch")
    files = dict(parent.files)
    header: dict[str, Any] = {}
    for line in map(json.loads, request.body.splitlines()):
        header = line["value"] if line["key"] == "header" else header
        apply(request, files, line["key"], line["value"])
    if header.get("parentCommit") not in (None, parent.oid):
        raise RefusedError(412, "", "A commit has happened since. Please refresh and try again.")
    answer = {"success": True, "hookOutput": ""}
    if request.query.get("create_pr") == ["1"]:
        found.pull_requests += 1
        ref = f"refs/pr/{found.pull_requests}"
        answer["pullRequestUrl"] = f"{request.server.url}/{repo}/discussions/{found.pull_requests}"
    oid = found.commit(ref, Commit(files, header["summary"], header.get("description", ""), parent.oid))
    return {**answer, "commitOid": oid, "commitUrl": f"{request.server.url}/{repo}/commit/{oid}"}


def may_commit(request: Handler, repo: str) -> Repository:
    """Pull requests are open to all who can read."""
    if request.query.get("create_pr") == ["1"]:
        request.login()
        return request.readable(repo)
    return request.writable(repo)


def apply(request: Handler, files: dict[str, Blob], key: str, value: dict[str, Any]) -> None:
    """One line of a commit."""
    if key == "file":
        files[value["path"]] = Blob(base64.b64decode(value["content"]))
    elif key == "lfsFile":
        if value["oid"] not in request.server.large_files:
            raise RefusedError(400, "", f"the large file {value['path']} was never uploaded")
        files[value["path"]] = request.server.large_files[value["oid"]]
    elif key == "deletedFile":
        if value["path"] not in files:
            raise RefusedError(404, "EntryNotFound", "A file with this name doesn't exist")
        del files[value["path"]]
    elif key != "header":
        raise RefusedError(501, "", f"this Hub has no {key} in commits")


# ---- large files


@route("POST", "/{repo}.git/info/lfs/objects/batch")
def batch(request: Handler, repo: str) -> Any:
    request.login()
    request.readable(repo)
    objects = []
    for file in request.json["objects"]:
        href = f"{request.server.storage_url}/lfs/{file['oid']}"
        actions = {"upload": {"href": href}, "verify": {"href": f"{href}/verify"}}
        present = file["oid"] in request.server.large_files
        objects.append({**file} if present else {**file, "actions": actions})
    return {"transfer": "basic", "objects": objects}


@route("PUT", "/lfs/{rev}")
def upload(request: Handler, rev: str) -> Any:
    blob = Blob(request.body, lfs=True)
    if blob.sha256 != rev:
        raise RefusedError(400, "", "the content has another sha256")
    request.server.large_files[rev] = blob
    return {}


@route("POST", "/lfs/{rev}/verify")
def verify(request: Handler, rev: str) -> Any:
    blob = request.server.large_files.get(rev)
    if blob is None or len(blob.data) != request.json["size"]:
        raise RefusedError(404, "", "no such large file")
    return {}


@route("GET", "/lfs/{rev}")
def download(request: Handler, rev: str) -> None:
    blob = request.server.large_files[rev]
    request.answer(blob.data, {"ETag": f'"{blob.etag}"'})


@route("GET", "/{repo}/resolve/{rev}/{path}")
def resolve(request: Handler, repo: str, rev: str, path: str) -> None:
    _, commit = request.readable(repo).find(rev)
    if path not in commit.files:
        raise RefusedError(404, "EntryNotFound", f"{path} does not exist on {rev!r}")
    blob = commit.files[path]
    headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{blob.etag}"'}
    if not blob.lfs:
        return request.answer(blob.data, headers)
    headers["X-Linked-ETag"], headers["X-Linked-Size"] = headers["ETag"], str(len(blob.data))
    return request.answer(
        b"", {**headers, "Location": f"{request.server.storage_url}/lfs/{blob.sha256}"}, 302
    )
