"""What a new installation must do: train, save, load with AutoTokenizer, encode."""

import sys
import sysconfig
import tempfile
from pathlib import Path

import hf_scaffold as hs

TEXT = "The hippopotamus of Arizona bought a banana in the Arizona zone. "


def main() -> None:
    tokenizer = hs.train_tokenizer([TEXT * 50, "Naïve café, 東京, 123."], vocab_size=270, eos_token="<|eos|>")
    ids = tokenizer(TEXT)["input_ids"]
    assert 0 < len(ids) < len(TEXT.encode()), ids
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled()

    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        loaded = AutoTokenizer.from_pretrained(folder)
        assert type(loaded) is hs.ScaffoldTokenizerFast, type(loaded)
        assert loaded.explain_path(TEXT) == "native", loaded.explain_path(TEXT)
        for text in (TEXT, "東京 <|eos|>", "", "\N{OWL}"):
            assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
            assert loaded.decode(loaded(text)["input_ids"]) == text
        assert hs.Encoder.from_pretrained(folder).encode(TEXT) == ids
    print(f"Python {sys.version.split()[0]}: {len(ids)} ids, from {Path(hs.__file__).parent}")


if __name__ == "__main__":
    main()
