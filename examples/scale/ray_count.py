"""Count pre-tokens with Ray Data: python ray_count.py CORPUS counts.parquet, or ray job submit -- python …"""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a folder of Parquet files")
    parser.add_argument("output", help="the table to write, on the driver's disk")
    parser.add_argument("--column", default="text")
    parser.add_argument("--pre-tokenizer", default="gpt2-digits")
    options = parser.parse_args()

    import ray

    from hf_scaffold.scale import ray as scale

    dataset = ray.data.read_parquet(options.corpus, columns=[options.column])
    size = scale.count(dataset, options.output, column=options.column, pre_tokenizer=options.pre_tokenizer)
    print(f"{options.output}: {size.n_distinct:,} distinct pre-tokens, {size.n_pretokens:,} in all")


if __name__ == "__main__":
    main()
