"""Two processes against one at equal data: quality by how often they synchronize, and cost.

    python -m benchmarks.distributed_training [--model neat] [--epochs 60] [--sync-every 512 4096]
    python -m benchmarks.distributed_training --half --seeds 3 --sync-every 4096

Needs torch (extra `distributed`). The training half of the Instacart orders is split once more (id % 4); one quarter is
the training set, the paper's labels of the other the test set: HR@10 in candidate sets of 200, 95 % interval over
queries (and trainings, where there are several seeds). `--half`: the half-split itself. One process with two threads,
then two processes with one thread each, started by torchrun, on the same shards. MB sent are the mean over
synchronizations of what a process sent.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.half_split import parts
from benchmarks.harness import ROOT, save, table
from neatrec.evaluation.ranks import LabelRanks
from neatrec.models.embeddings.synchronize import Synchronizer

SHARDS = 8


class SentMegabytes(logging.Handler):
    """Megabytes per synchronization, from the log line after each epoch."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.megabytes: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("synchronized ") and isinstance(record.args, tuple):
            self.megabytes.append(float(str(record.args[1])))


def worker(source: str, out: str, model: str, epochs: str, seed: str, sync_every: str) -> None:
    """One process of a training; what torchrun starts."""
    from neatrec.io import SourceOptions
    from neatrec.training.distributed import LaunchEnvironment, process_group
    from neatrec.training.streaming import StreamOptions
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

    streaming = StreamOptions(source, SourceOptions(), at_least=SHARDS)
    choice = ModelChoice(model=model, settings=(f"epochs={epochs}",))
    launch, sent = LaunchEnvironment.read(), SentMegabytes()
    log = logging.getLogger("neatrec.models.embeddings.trainer")
    log.addHandler(sent)
    log.setLevel(logging.DEBUG)
    options = TrainOptions(seed=int(seed), threads=2 if launch is None else 1, index=False)
    if launch is None:
        report = train_bundle(streaming, Path(out), choice, options)
    else:
        with process_group(launch, "cpu") as group:
            report = train_bundle(streaming, Path(out), choice, options, Synchronizer(group, int(sync_every)))
    if report:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        cost = {"seconds": round(report["train_seconds"], 1), "peak_mib": peak}
        print(json.dumps({**cost, "mb_sent": statistics.fmean(sent.megabytes or [0.0])}))


def trained(source: Path, out: Path, options: list[str], processes: int) -> dict[str, Any]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    command = [sys.executable, *launcher, "-m", "benchmarks.distributed_training", "--worker", str(source), str(out)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cost: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**cost, "wall": round(time.perf_counter() - began, 1), "cpu": round(cpu, 1)}


def main(model: str, epochs: int, sync_every: list[int], half: bool, seeds: int) -> None:
    from neatrec.bundle import load_bundle
    from neatrec.evaluation.ranks import rank_labels
    from neatrec.evaluation.summary import summarize_ranks

    part = parts(None, not half)[0]
    runs: dict[str, list[dict[str, Any]]] = {}
    ranks: dict[str, list[LabelRanks]] = {}
    ways = [(1, 0), *((2, interval) for interval in sync_every)]
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = Path(name)
        part.train.save(folder / "baskets")
        for seed in range(seeds):
            for processes, interval in ways:
                key = "one process" if processes == 1 else f"two, every {interval}"
                options = [model, str(epochs), str(seed), str(interval)]
                run = trained(folder / "baskets", folder / "bundle", options, processes)
                runs.setdefault(key, []).append(run)
                ranks.setdefault(key, []).append(
                    rank_labels(load_bundle(folder / "bundle"), part.task.candidate_set, part.task.label_queries)
                )
                print(key, seed, run, flush=True)
    found = summarize_ranks(ranks, part.task.label_queries)
    rows = {standing.name: {**quality(standing), **middle(runs[standing.name])} for standing in found.models}
    columns = ("hr", "low", "high", "seconds", "cpu", "peak_mib", "mb_sent")
    print(table([["training", *columns], *([name, *(str(row[c]) for c in columns)] for name, row in rows.items())]))
    about = {"model": model, "epochs": epochs, "baskets": len(part.train), "lines": part.train.lines, "seeds": seeds}
    about |= {"labels": found.labels, "queries": found.queries, "shards": SHARDS}
    arguments = f"--model {model} --epochs {epochs} --sync-every {' '.join(map(str, sync_every))}"
    save(
        "distributed_training",
        {"about": about, "runs": rows},
        ("torch", "numpy"),
        file=f"distributed_training_{model}{'_half' if half else ''}",
        options=f"{arguments}{' --half' if half else ''} --seeds {seeds}",
    )


def quality(standing: Any) -> dict[str, float]:
    values = {"hr": standing.mean["hr@10"], "low": standing.low["hr@10"], "high": standing.high["hr@10"]}
    return {key: round(value, 4) for key, value in values.items()}


def middle(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The median of each number over the trainings."""
    return {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
        sys.exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="neat")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--sync-every", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--half", action="store_true", help="train on the half-split itself, not on a quarter")
    parser.add_argument("--seeds", type=int, default=1)
    main(**vars(parser.parse_args()))
