"""The ids that vLLM computes, beside ours: python serve.py my-model "some text"

vLLM calls the tokenizer of transformers through a wrapper of its own; that is what this compares, without a
GPU. Then serve the model as any other: vllm serve my-model --trust-remote-code
"""

import argparse
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a folder or name on the Hub, of a model or a tokenizer")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args()

    from vllm.tokenizers import get_tokenizer

    import hf_scaffold as hs

    theirs = get_tokenizer(options.model, trust_remote_code=True)
    ours = hs.Encoder.from_pretrained(options.model)
    for text in options.text:
        ids = theirs(text)["input_ids"]
        if ids != ours.encode(text, add_special_tokens=True):
            sys.exit(f"vLLM gives other ids of {text!r}: {ids}, not {ours.encode(text)}")
        print(*ids)


if __name__ == "__main__":
    main()
