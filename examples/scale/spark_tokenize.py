"""Tokenize with Spark: python or spark-submit spark_tokenize.py CORPUS TOKENIZER OUTPUT"""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a folder or pattern of Parquet files")
    parser.add_argument(
        "tokenizer", help="a saved tokenizer's folder, which all machines find, or a name on the Hub"
    )
    parser.add_argument("output", help="the folder of Parquet files to write")
    parser.add_argument("--column", default="text")
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    from hf_scaffold.scale import spark as scale

    spark = SparkSession.builder.getOrCreate()
    df = spark.read.parquet(options.corpus)
    ids = scale.tokenize(df, options.tokenizer, column=options.column, remove_columns=[options.column])
    ids.write.parquet(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
