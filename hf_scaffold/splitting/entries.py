"""What native code splits text by, for a pre-tokenizer of tokenizer.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hf_scaffold.splitting.normalizers import marks_of
from hf_scaffold.text.presets import preset_of

if TYPE_CHECKING:
    from hf_scaffold.splitting.levels import Level

Splitting = str | tuple["Level", ...]


def splitting_of(pre_tokenizer: Any) -> Splitting:
    """What native code splits text by, for an entry of tokenizer.json: a preset's name, or levels.

    The text must first go through `hf_scaffold.splitting.normalizers.marks_of` the entry.

    Raises:
        RefusedError: only `tokenizers` can split so.
    Cost: some milliseconds for a pattern, once.
    Example:
        >>> splitting_of({"type": "ByteLevel", "add_prefix_space": True, "use_regex": True})
        'gpt2'
    """
    if marks_of(pre_tokenizer):
        pre_tokenizer = {**pre_tokenizer, "add_prefix_space": False}
    if preset := preset_of(pre_tokenizer):
        return preset
    from hf_scaffold.splitting.levels import levels_of_json  # some milliseconds, which presets don't take

    return levels_of_json(json.dumps(pre_tokenizer, sort_keys=True))


def writes_bytes(pre_tokenizer: Any) -> bool:
    """Whether this entry ends with `ByteLevel`, which spells pre-tokens in the byte-level alphabet."""
    if not isinstance(pre_tokenizer, dict):
        return False
    if pre_tokenizer.get("type") != "Sequence":
        return bool(pre_tokenizer.get("type") == "ByteLevel")
    steps = pre_tokenizer["pretokenizers"]
    return bool(steps) and writes_bytes(steps[-1])
