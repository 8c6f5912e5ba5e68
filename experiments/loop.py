"""What the experiments share: a training loop that can be cut off at any time, and a log of finished runs.

A run is a JSON object: what was asked for is its key. A log has one finished run a line, so that a script
that is started again leaves out what is there; a run that was cut off goes on from its checkpoint, to the
same figures. Everything random is drawn anew in each step from the seed and the number of the step.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from torch import nn

Run = dict[str, Any]
Batch = dict[str, torch.Tensor]
IGNORED = -100  # a target that doesn't count, as PyTorch has it
LOGS = Path(__file__).parent / "logs"

# Options of every script.
Jobs = Annotated[int, typer.Option(help="Runs at the same time.")]
Minutes = Annotated[float, typer.Option(help="After which to stop and keep checkpoints.")]
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.")]
Folder = Annotated[Path, typer.Option(help="For what is large.")]
Log = Annotated[Path | None, typer.Option(help="Of finished runs; else in logs/, by script and size.")]
LARGE = Path("build/experiments")


class OutOfTimeError(Exception):
    """The time is up; the checkpoint has been written."""


class Place(NamedTuple):
    """Where runs happen.

    Args:
        folder: For tokenizers, shards and checkpoints; its name is that of the log.
        device: As PyTorch names it.
        deadline: By time.time(), when to stop.
        save_every: Seconds between checkpoints.
    """

    folder: Path
    device: str = "cpu"
    deadline: float = float("inf")
    save_every: float = 60.0

    def checkpoint(self, asked: Run) -> Path:
        """Of a run that has not finished."""
        return self.folder / "checkpoints" / f"{'-'.join(map(str, asked.values()))}.pt"

    def set_up(self, seed: int) -> None:
        """Make PyTorch repeat itself: one thread, and no kernel whose sums depend on timing.

        On a GPU some have no other; PyTorch then warns.
        """
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=self.device != "cpu")
        torch.manual_seed(seed)

    @property
    def hardware(self) -> str:
        return "cpu" if self.device == "cpu" else torch.cuda.get_device_name(self.device)


# ---- training


def fit(
    model: nn.Module,
    batch_of: Callable[[int], Batch],
    n_steps: int,
    *,
    rate: float,
    seed: int,
    place: Place,
    checkpoint: Path,
) -> tuple[list[float], float]:
    """Train a model with AdamW: the rate rises for a twentieth of the steps and falls to a tenth by a cosine.

    Args:
        batch_of: The inputs and targets of a step; the model is called with all but `labels`.
        checkpoint: Written from time to time, and begun from if it is there.
    Returns:
        The loss of each step in nats a target, and how many seconds it took.
    Raises:
        OutOfTimeError: at place.deadline.
    """
    model.to(place.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.1)
    n_warm_up = max(1, n_steps // 20)
    rises = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / n_warm_up, total_iters=n_warm_up)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, n_steps - n_warm_up), rate / 10)
    rates = torch.optim.lr_scheduler.SequentialLR(optimizer, [rises, falls], [n_warm_up])
    parts = {"model": model, "optimizer": optimizer, "rates": rates}
    losses: list[float] = []
    seconds = 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=place.device)
        losses, seconds = saved["losses"], saved["seconds"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    began = saved_at = time.time()
    for step in range(len(losses), n_steps):
        torch.manual_seed(seed * 1_000_003 + step)
        loss = loss_of(model, batch_of(step), place.device).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        now = time.time()
        if now > place.deadline or now - saved_at > place.save_every:
            states = {name: part.state_dict() for name, part in parts.items()}
            save(states | {"losses": losses, "seconds": seconds + now - began}, checkpoint)
            saved_at = now
            if now > place.deadline:
                raise OutOfTimeError
    return losses, seconds + time.time() - began


def loss_of(model: nn.Module, batch: Batch, device: str) -> torch.Tensor:
    """The loss of each target that counts, in nats."""
    inputs = {name: part.to(device) for name, part in batch.items()}
    targets = inputs.pop("labels").flatten()
    with torch.autocast("cuda", torch.bfloat16, enabled=device.startswith("cuda")):
        logits = model(**inputs).logits
    losses = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets, reduction="none")
    return losses[targets != IGNORED]


def save(state: Any, path: Path) -> None:
    """Write all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


# ---- runs and their log


def facts(losses: list[float], seconds: float, place: Place) -> Run:
    """What the log has of every run."""
    return {
        "n_steps": len(losses),
        "losses": [round(float(np.mean(piece)), 4) for piece in np.array_split(losses, 20) if len(piece)],
        "seconds": round(seconds, 1),
        "hardware": place.hardware,
        "torch": torch.__version__,
    }


def key_of(asked: Run) -> str:
    return json.dumps(asked, sort_keys=True)


def finished(log: Path) -> dict[str, Run]:
    """The runs of a log by their keys; a last line that was cut off is none."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    runs = [json.loads(line) for line in lines if line.endswith("\n")]
    return {key_of(run["asked"]): run for run in runs}


def run_all(
    asked: Sequence[Run],
    prepare: Callable[[], None],
    do: Callable[[Run, Place], Run],
    place: Place,
    log: Path | None,
    jobs: int,
) -> None:
    """Do what the log doesn't have, in so many processes, and add it to the log.

    Args:
        prepare: Makes what the runs need; called if any are missing.
    """
    log = log or LOGS / f"{place.folder.name}.jsonl"
    done = finished(log)
    missing = [run for run in asked if key_of(run) not in done]
    if missing:
        prepare()
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and not log.read_bytes().endswith(b"\n"):
        whole = log.with_suffix(".part")
        whole.write_text("".join(json.dumps(run) + "\n" for run in done.values()), encoding="utf-8")
        whole.replace(log)
    n_done = len(asked) - len(missing)
    for found in results(missing, do, place, jobs):
        with log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(found) + "\n")
        place.checkpoint(found["asked"]).unlink(missing_ok=True)
        n_done += 1
        print(f"{n_done} of {len(asked)}: {described(found)}", file=sys.stderr, flush=True)
    if n_done < len(asked):
        print(f"{len(asked) - n_done} runs are left: the same command goes on", file=sys.stderr)


def results(asked: Sequence[Run], do: Callable[[Run, Place], Run], place: Place, jobs: int) -> Iterator[Run]:
    """What runs find, in the order in which they end; those that run out of time are left out."""
    if jobs == 1:
        for run in asked:
            try:
                yield do(run, place)
            except OutOfTimeError:
                return
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), end_with_parent)
    try:
        for future in as_completed([pool.submit(do, run, place) for run in asked]):
            try:
                yield future.result()
            except (OutOfTimeError, CancelledError):
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        for process in active_children():  # after Ctrl-C they would go on
            process.terminate()
        pool.shutdown()


def end_with_parent() -> None:
    """End this process when the one that began it is gone, killed or not."""
    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def described(found: Run) -> str:
    return ", ".join(str(value) for value in found["asked"].values()) + f": {found['seconds']:.0f} s"
