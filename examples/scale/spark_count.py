"""Count pre-tokens with Spark: python or spark-submit spark_count.py CORPUS counts.parquet"""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a folder or pattern that Spark reads")
    parser.add_argument("output", help="the table to write, on the driver's disk")
    parser.add_argument("--format", default="parquet", help="parquet, json, or text: a file a document")
    parser.add_argument("--column", default="text")
    parser.add_argument("--pre-tokenizer", default="gpt2-digits")
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    from hf_scaffold.scale import spark as scale

    spark = SparkSession.builder.getOrCreate()
    whole = {"wholetext": True} if options.format == "text" else {}
    df = spark.read.format(options.format).options(**whole).load(options.corpus)
    column = "value" if options.format == "text" else options.column
    size = scale.count(df, options.output, column=column, pre_tokenizer=options.pre_tokenizer)
    print(f"{options.output}: {size.n_distinct:,} distinct pre-tokens, {size.n_pretokens:,} in all")
    spark.stop()


if __name__ == "__main__":
    main()
