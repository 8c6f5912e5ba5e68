"""A tokenizer on the Hub, and back: python push_and_load.py my-tokenizer me/my-tokenizer --private"""

import argparse
import subprocess
import sys

# As somebody without this package loads it.
LOAD = """
import sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
print(tokenizer(sys.argv[2])["input_ids"])
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", help="the folder of a saved tokenizer")
    parser.add_argument("repository", help="its name on the Hub")
    parser.add_argument("--private", action="store_true", help="for you alone")
    parser.add_argument("--text", default="The hippopotamus of Arizona")
    options = parser.parse_args()

    from transformers import AutoTokenizer

    import hf_scaffold  # noqa: F401 - AutoTokenizer then knows the class

    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    tokenizer.push_to_hub(options.repository, private=options.private)

    ids = tokenizer(options.text)["input_ids"]
    command = [sys.executable, "-c", LOAD, options.repository, options.text]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if loaded != str(ids):
        sys.exit(f"{options.repository} gives other ids: {loaded}, not {ids}")
    print(f"{options.repository}: pushed, and loaded with the same ids: {loaded}")


if __name__ == "__main__":
    main()
