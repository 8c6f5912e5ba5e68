"""Count pre-tokens with datatrove, on this machine or, with --slurm PARTITION, on a cluster."""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="a folder of JSON Lines files")
    parser.add_argument("output", help="a folder: for the ranks' tables, the logs, and counts.parquet")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=-1, help="tasks at a time; by default all")
    parser.add_argument("--pre-tokenizer", default="gpt2-digits")
    parser.add_argument("--slurm", metavar="PARTITION")
    parser.add_argument("--time", default="4:00:00")
    options = parser.parse_args()

    from datatrove.executor import LocalPipelineExecutor, SlurmPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader

    from hf_scaffold.scale.datatrove import CountPretokens, MergeCounts

    def executor(name, pipeline, tasks, **more):
        settings = {
            "tasks": tasks,
            "workers": min(options.workers, tasks),
            "logging_dir": f"{options.output}/{name}",
        }
        if options.slurm:
            slurm = {"partition": options.slurm, "time": options.time, "job_name": name}
            return SlurmPipelineExecutor(pipeline, **settings, **slurm, **more)
        return LocalPipelineExecutor(pipeline, **settings, **more)

    ranks = f"{options.output}/ranks"
    counting = [JsonlReader(options.corpus), CountPretokens(ranks, pre_tokenizer=options.pre_tokenizer)]
    merging = [MergeCounts(ranks, options.output)]
    count = executor("count", counting, options.tasks)
    executor("merge", merging, 1, depends=count).run()


if __name__ == "__main__":
    main()
