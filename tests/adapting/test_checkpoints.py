"""Safetensors are read, and written as their own library does it; bad files are refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hf_scaffold as hs
from hf_scaffold.adapting.checkpoints import INDEX, WEIGHTS, Checkpoint, Replacement, Weights

TENSORS = {
    "embed": np.arange(12, dtype=np.float32).reshape(6, 2),
    "layer": np.arange(10, dtype=np.float16).reshape(2, 5),
    "scale": np.array(3, dtype=np.float64),
    "empty": np.zeros((0, 4), np.int8),
    "mask": np.array([True, False, True]),
}
LARGER = np.full((9, 2), 7, np.float32)


def replaced(array):
    data = array.tobytes()
    return Replacement(array.shape, [data[:5], data[5:]])


def test_all_but_what_is_replaced_stays(tmp_path):
    save_file(TENSORS, tmp_path / WEIGHTS, metadata={"format": "pt", "a": "ä"})
    weights = Weights.read(tmp_path / WEIGHTS)
    done = [*weights.write(tmp_path / "out", {"embed": replaced(LARGER)})]
    assert done == sorted(done)
    assert done[-1] == sum(tensor.nbytes for tensor in TENSORS.values())
    save_file({**TENSORS, "embed": LARGER}, tmp_path / "expected", metadata={"format": "pt", "a": "ä"})
    found, expected = load_file(tmp_path / "out"), load_file(tmp_path / "expected")
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].tobytes()) == (tensor.dtype, tensor.tobytes())
    assert Weights.read(tmp_path / "out").metadata == weights.metadata == {"format": "pt", "a": "ä"}
    start = Weights.read(tmp_path / "out").start
    assert start % 8 == 0
    assert (tmp_path / "out").read_bytes()[start:] == (tmp_path / "expected").read_bytes()[-(72 + 31) :]


def sharded(folder, files=None, **index):
    files = files or {"a.safetensors": ["embed", "scale"], "b.safetensors": ["layer", "empty", "mask"]}
    places = {name: file for file, names in files.items() for name in names}
    for file, names in files.items():
        save_file({name: TENSORS[name] for name in names}, folder / file)
    content = {"metadata": {"total_size": 79, "total_parameters": 26}, "weight_map": places, **index}
    (folder / INDEX).write_text(json.dumps(content))
    return places


def test_the_index_has_the_new_sizes(tmp_path):
    places = sharded(tmp_path, more=1)
    (tmp_path / "out").mkdir()
    seen = []
    Checkpoint.read(tmp_path).write(
        tmp_path / "out", {"embed": replaced(LARGER)}, lambda *sizes: seen.append(sizes)
    )
    assert json.loads((tmp_path / "out" / INDEX).read_text()) == {
        "metadata": {"total_size": 79 + 24, "total_parameters": 26 + 6},
        "weight_map": places,
        "more": 1,
    }
    assert (tmp_path / "out" / "b.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert seen == sorted(seen)
    assert seen[-1] == (79, 79)


def test_an_index_without_sizes_stays_without(tmp_path):
    sharded(tmp_path, metadata=None)
    (tmp_path / "out").mkdir()
    Checkpoint.read(tmp_path).write(tmp_path / "out", {"embed": replaced(LARGER)}, lambda *_: None)
    assert json.loads((tmp_path / "out" / INDEX).read_text())["metadata"] == {}


@pytest.mark.parametrize("name", ["../a.safetensors", "c.safetensors", "sub/a.safetensors"])
def test_an_index_names_files_beside_it(name, tmp_path):
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    for folder in ("folder/sub", "."):
        save_file(TENSORS, tmp_path / folder / "a.safetensors")
    (tmp_path / "folder" / INDEX).write_text(json.dumps({"weight_map": {"embed": name}}))
    with pytest.raises(hs.ArtifactError, match=r"names '.*a?.safetensors', which is no file beside it"):
        Checkpoint.read(tmp_path / "folder")


@pytest.mark.parametrize("change", [{"embed": "b.safetensors"}, {"embed": None}, {"more": "a.safetensors"}])
def test_an_index_agrees_with_its_files(change, tmp_path):
    places = sharded(tmp_path) | change
    index = {"weight_map": {name: file for name, file in places.items() if file}}
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(hs.ArtifactError, match=f"don't agree on where '{next(iter(change))}' is"):
        Checkpoint.read(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"weight_map": 3}', "{}"])
def test_an_index_that_is_none_is_refused(content, tmp_path):
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(hs.ArtifactError, match=f"{INDEX} is no index of safetensors"):
        Checkpoint.read(tmp_path)


@pytest.mark.parametrize("cut", [0, 5, 30, -1])
def test_truncated_files_are_refused(cut, tmp_path):
    save_file(TENSORS, tmp_path / WEIGHTS)
    (tmp_path / WEIGHTS).write_bytes((tmp_path / WEIGHTS).read_bytes()[:cut])
    with pytest.raises(hs.ArtifactError, match=f"{WEIGHTS} can't be read as safetensors.* Fetch it again"):
        Checkpoint.read(tmp_path)


def test_a_file_that_shrinks_meanwhile_is_refused(tmp_path):
    save_file(TENSORS, tmp_path / WEIGHTS)
    checkpoint = Checkpoint.read(tmp_path)
    (tmp_path / WEIGHTS).write_bytes((tmp_path / WEIGHTS).read_bytes()[:-1])
    (tmp_path / "out").mkdir()
    with pytest.raises(hs.ArtifactError, match="became shorter"):
        checkpoint.write(tmp_path / "out", {}, lambda *_: None)
