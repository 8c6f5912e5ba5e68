"""What a new user may try first: it works, or the error says what to do."""

import pytest

import hf_scaffold as hs

TEXTS = ["Arizona zone banana hugs pugs buns"] * 9


@pytest.fixture(scope="module")
def bpe():
    return hs.train(hs.count(TEXTS), 264, log=True)


@pytest.fixture
def folder(bpe, tmp_path):
    bpe.to_tokenizer().save_pretrained(tmp_path / "tok")
    bpe.save(tmp_path / "bpe")
    return tmp_path


def test_training_on_what_is_no_counts():
    for given in ("books/*.txt", TEXTS, 8000):
        with pytest.raises(TypeError, match=r"counts must be PreTokenCounts, .*hs.count.*hs.train_tokenizer"):
            hs.train(given, 300)
    with pytest.raises(TypeError, match=r"from_mapping"):
        hs.train({"hug": 5}, 300)


@pytest.mark.parametrize("given", ["hello", b"hello", ["hello"], 5, [b"a", None]])
def test_encoding_what_is_no_list_of_bytes(bpe, given):
    with pytest.raises(TypeError, match=r"list of pre-tokens as bytes, such as .*to_tokenizer"):
        bpe.encode(given)


def test_a_tokenizers_folder_is_no_artifacts(bpe, folder):
    with pytest.raises(FileNotFoundError, match=r"AutoTokenizer.*tok"):
        hs.ScaffoldBPE.load(folder / "tok")
    bpe.save(folder / "tok" / "artifact")
    with pytest.raises(FileNotFoundError, match="its artifact is in"):
        hs.ScaffoldBPE.load(folder / "tok")
    assert hs.ScaffoldBPE.load(folder / "tok" / "artifact") == bpe


def test_a_file_is_no_artifact(folder):
    with pytest.raises(NotADirectoryError, match="a folder, not a file"):
        hs.ScaffoldBPE.load(folder / "bpe" / "vocab.json")


def test_an_artifacts_folder_is_no_tokenizers(folder):
    with pytest.raises(hs.ConfigurationError, match=r"artifact.*hs.ScaffoldBPE.load"):
        hs.load_tokenizer(folder / "bpe")


def test_counts_of_other_things():
    counts = hs.count(TEXTS)
    with pytest.raises(TypeError, match=r"merge\(\*tables\)"):
        counts.merge([counts])
    with pytest.raises(TypeError, match=r"hs\.count"):
        hs.PreTokenCounts.from_mapping(["hug"])


@pytest.mark.parametrize("name", ["books/*.txt", "missing.jsonl", "missing.txt.gz"])
def test_names_of_files_among_texts(name):
    with pytest.warns(UserWarning, match="if that is to be a path, give pathlib.Path") as warned:
        hs.count([name])
    assert warned[0].filename == __file__


def test_evaluating_a_name(bpe):
    with pytest.raises(hs.ConfigurationError, match=r"the string 'tok'; .*hs.load_tokenizer"):
        hs.evaluate("tok", hs.count(TEXTS))


def test_saving_with_what_is_unknown(bpe, tmp_path):
    tokenizer = bpe.to_tokenizer()
    with pytest.raises(TypeError, match=r"'filename_prefx'. Did you mean 'filename_prefix'\?"):
        tokenizer.save_pretrained(tmp_path / "new", filename_prefx="a")
    assert not (tmp_path / "new").exists()
    tokenizer.save_pretrained(tmp_path / "new", safe_serialization=True)  # as pipelines do
