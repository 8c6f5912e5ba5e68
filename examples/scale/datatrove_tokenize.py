"""Tokenize with datatrove, on this machine or, with --slurm PARTITION, on a cluster."""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a folder of JSON Lines files")
    parser.add_argument(
        "tokenizer", help="a saved tokenizer's folder, which all machines find, or a name on the Hub"
    )
    parser.add_argument("output", help="a folder: for the ranks' .ds files, and the logs")
    parser.add_argument("--eos-token")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=-1, help="tasks at a time; by default all")
    parser.add_argument("--seed", type=int, default=0, help="of the documents' order")
    parser.add_argument("--slurm", metavar="PARTITION")
    parser.add_argument("--time", default="4:00:00")
    options = parser.parse_args()

    from datatrove.executor import LocalPipelineExecutor, SlurmPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader

    from hf_scaffold.scale.datatrove import ScaffoldTokenizer

    ids = f"{options.output}/ids"
    writer = ScaffoldTokenizer(ids, options.tokenizer, eos_token=options.eos_token, seed=options.seed)
    pipeline = [JsonlReader(options.corpus), writer]
    settings = {"tasks": options.tasks, "workers": options.workers, "logging_dir": f"{options.output}/logs"}
    if options.slurm:
        slurm = {"partition": options.slurm, "time": options.time, "job_name": "tokenize"}
        SlurmPipelineExecutor(pipeline, **settings, **slurm).run()
    else:
        LocalPipelineExecutor(pipeline, **settings).run()


if __name__ == "__main__":
    main()
