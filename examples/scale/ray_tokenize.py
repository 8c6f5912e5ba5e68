"""Tokenize with Ray Data: python ray_tokenize.py CORPUS TOKENIZER OUTPUT, or ray job submit -- python …"""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a folder of Parquet files")
    parser.add_argument(
        "tokenizer", help="a saved tokenizer's folder, which all machines find, or a name on the Hub"
    )
    parser.add_argument("output", help="the folder of Parquet files to write")
    parser.add_argument("--column", default="text")
    parser.add_argument("--concurrency", type=int, help="actors; by default as many as there is work for")
    options = parser.parse_args()

    import ray

    from hf_scaffold.scale import ray as scale

    dataset = ray.data.read_parquet(options.corpus)
    ids = scale.tokenize(
        dataset,
        options.tokenizer,
        column=options.column,
        remove_columns=[options.column],
        concurrency=options.concurrency,
    )
    ids.write_parquet(options.output)


if __name__ == "__main__":
    main()
