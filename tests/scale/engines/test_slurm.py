"""datatrove by Slurm, on a cluster of one node that is this machine."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import corpora
import pytest
from datatrove.executor import SlurmPipelineExecutor
from datatrove.pipeline.readers import JsonlReader, ParquetReader

from hf_scaffold.scale.datatrove import CountPretokens, MergeCounts, ScaffoldTokenizer

SYSTEM = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
MISSING = [
    name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name, path=SYSTEM)
]
NO_SLURM = f"no {' and '.join(MISSING)} here; Debian: apt-get install slurm-wlm munge"
# `make scale-test` installs Slurm, which takes root: elsewhere these tests say what they lack.
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=NO_SLURM)]
N_RANKS = 8
CONFIGURATION = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000
PartitionName=cpu Nodes={host} Default=YES
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A controller and a node; programs that are run meanwhile submit to it."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    configuration = folder / "slurm.conf"
    settings = {"host": socket.gethostname().partition(".")[0], "user": getpass.getuser()}
    settings |= {"ports": [free_port(), free_port()], "cpus": os.cpu_count(), "folder": folder}
    configuration.write_text(CONFIGURATION.format(**settings), encoding="utf-8")
    files = {name: folder / f"munge.{name}" for name in ("key-file", "socket", "pid-file", "seed-file")}
    files["key-file"].write_bytes(os.urandom(128))
    files["key-file"].chmod(0o600)
    munge = ["munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items())]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("SLURM_CONF", str(configuration))
        # Jobs are given it, and look there for datatrove's programs.
        patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), SYSTEM]))
        for command in (munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            stack.enter_context(running(command, folder))
        wait_for(lambda: "idle" in said("sinfo", "--noheader", "--format=%T"))
        yield


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextlib.contextmanager
def running(command, folder):
    """A process of the cluster."""
    with open(folder / f"{command[0]}.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def wait_for(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(said("squeue") + said("sinfo"))


def executor(name, pipeline, tasks, folder, **options):
    return SlurmPipelineExecutor(
        pipeline,
        tasks=tasks,
        time="0:10:00",
        partition="cpu",
        mem_per_cpu_gb=1,
        job_name=name,
        logging_dir=str(folder / name),
        **options,
    )


def submit(folder, reader, saved):
    """Count, tokenize, and, once ranks are done, merge. Returns the last job's name."""
    steps = [CountPretokens(f"{folder}/ranks"), ScaffoldTokenizer(f"{folder}/ids", str(saved), seed=0)]
    ranks = executor("ranks-job", [reader, *steps], N_RANKS, folder)
    merging = [MergeCounts(f"{folder}/ranks", str(folder))]
    executor("merge-job", merging, 1, folder, depends=ranks).run()


def completed(folder, name):
    return [*folder.glob(f"{name}/completions/*")]


def ended(folder):
    wait_for(lambda: completed(folder, "merge-job") or not said("squeue", "--noheader"))
    assert completed(folder, "merge-job"), "".join(
        path.read_text()[-2000:] for path in folder.glob("*/slurm_logs/*")
    )


def test_counts_and_ids_are_those_of_one_machine(slurm, corpus, same, saved, ids, tmp_path):
    submit(tmp_path, ParquetReader(str(corpus["parquet"])), saved)
    ended(tmp_path)
    same(tmp_path / "counts.parquet")
    assert len(completed(tmp_path, "ranks-job")) == N_RANKS
    assert sorted(corpora.ids_in(tmp_path / "ids")) == sorted(row for text, row in ids.items() if text)


def test_a_run_that_is_cancelled_goes_on_where_completions_say(slurm, corpus, same, saved, ids, tmp_path):
    reader = JsonlReader(str(corpus["jsonl"]))
    submit(tmp_path, reader, saved)
    wait_for(lambda: completed(tmp_path, "ranks-job"))
    subprocess.run(["scancel", "--signal=KILL", "--full", "--name=ranks-job"], check=True)
    subprocess.run(["scancel", "--user", getpass.getuser()], check=True)
    wait_for(lambda: not said("squeue", "--noheader"))
    done = completed(tmp_path, "ranks-job")
    assert 0 < len(done) < N_RANKS
    times = {path.name: modified(tmp_path, path) for path in done}
    submit(tmp_path, reader, saved)
    ended(tmp_path)
    assert {path.name: modified(tmp_path, path) for path in done} == times
    same(tmp_path / "counts.parquet")
    assert sorted(corpora.ids_in(tmp_path / "ids")) == sorted(row for text, row in ids.items() if text)


def modified(folder, completion):
    """When the table of a rank was written."""
    return (folder / "ranks" / f"{completion.name}_counts.parquet").stat().st_mtime_ns
