"""Text files to a dataset of blocks of ids: python prepare_dataset.py my-tokenizer blocks books/*.txt"""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", help="a folder, or a name on the Hub")
    parser.add_argument("output", help="the folder to save the dataset in")
    parser.add_argument("text", nargs="+", help="plain-text files, each a document")
    parser.add_argument("--block-size", type=int, default=1024, help="ids a row (1024)")
    parser.add_argument("--num-proc", type=int, help="processes (one)")
    options = parser.parse_args()

    import pyarrow as pa
    import pyarrow.compute as pc
    from datasets import load_dataset
    from transformers import AutoTokenizer

    import hf_scaffold  # noqa: F401 - AutoTokenizer then knows the class

    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    texts = load_dataset("text", data_files=options.text, sample_by="document", split="train")

    def encode(table):
        # Arrow in, Arrow out: no Python object is made of a text or an id.
        ended = pc.binary_join_element_wise(table["text"], tokenizer.eos_token or "", "")
        return pa.table({"input_ids": tokenizer.encode_to_arrow(ended)})

    ids = texts.with_format("arrow").map(
        encode, batched=True, remove_columns=texts.column_names, num_proc=options.num_proc
    )

    def cut(table):
        # One long row; what is left at the end of a batch is dropped.
        flat = table["input_ids"].combine_chunks().flatten()
        n_blocks = len(flat) // options.block_size
        blocks = pa.FixedSizeListArray.from_arrays(flat[: n_blocks * options.block_size], options.block_size)
        return pa.table({"input_ids": blocks})

    blocks = ids.map(cut, batched=True, remove_columns=ids.column_names).with_format(None)
    blocks.save_to_disk(options.output)
    print(f"{options.output}: {len(blocks):,} blocks of {options.block_size:,} ids")


if __name__ == "__main__":
    main()
