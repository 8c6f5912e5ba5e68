"""What tells whether two tokenizers give every text the same ids."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_scaffold.native.sessions import Session
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

# A scaffold token of that name has a list; inside a string, a backslash comes before each quote.
_MEASURED = re.compile(r',"raw_agreement\w*":[^",\[\]{}]+')


def fingerprint(tokenizer: ScaffoldTokenizerFast) -> str:
    """The SHA-256 of all that ids depend on.

    Cost: 20 ms at 32,000 tokens, most of it for the backend's JSON; less than 1 ms while nothing changes.
    """
    settings = [bool(tokenizer.split_special_tokens), tokenizer.dropout]
    session = session_for(tokenizer)
    kept: tuple[Any, Any, str] | None = tokenizer.cache.get("fingerprint")
    if session is None or kept is None or kept[0] is not session or kept[1] != settings:
        rules = without_measurements(tokenizer._scaffold_json)
        digest = _sha256(tokenizer._tokenizer.to_str(), rules, json.dumps(settings))
        kept = tokenizer.cache["fingerprint"] = session, settings, digest
    return kept[2]


def fingerprint_of_0_1(tokenizer: ScaffoldTokenizerFast) -> str:
    """The same as 0.1.0 computed it, so that its shards can be resumed. It measured less."""
    scaffold = tokenizer.scaffold
    ids = {name: part for name, part in scaffold.items() if not name.startswith("raw_agreement")}
    return _sha256(
        tokenizer._tokenizer.to_str(),
        json.dumps({**ids, "raw_agreement": None}, sort_keys=True),
        json.dumps(bool(tokenizer.split_special_tokens)),
    )


def n_ids(tokenizer: ScaffoldTokenizerFast) -> int:
    """One more than the largest id it can give; there may be gaps before those of added tokens."""
    session = session_for(tokenizer)
    return max(tokenizer.get_vocab().values()) + 1 if session is None else session.bare.n_ids


def without_measurements(scaffold: str) -> str:
    """The content of scaffold.json without what was measured, which decides no id.

    Example:
        >>> without_measurements('{"merges":[["a","b"]],"raw_agreement":0.9,"version":1}')
        '{"merges":[["a","b"]],"version":1}'
    """
    return _MEASURED.sub("", scaffold)


def session_for(tokenizer: ScaffoldTokenizerFast) -> Session | None:
    """What is compiled for the tokenizer, anew once it changes; None if it takes the general path."""
    from hf_scaffold.native.sessions import NotNativeError, session_of

    caller: Any = tokenizer
    try:
        return session_of(caller) if tokenizer.native else None
    except NotNativeError:
        return None


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
