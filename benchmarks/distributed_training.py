"""Two processes beside one at equal data: quality by how often and by which rule they agree, and time.

    python -m benchmarks.distributed_training [--model neat] [--epochs 60] [--every 512 4096 16384] [--rules sum mean]

Needs torch (extra `distributed`). The training half of the Instacart orders is cut once more (id % 4); one quarter
trains, the paper's labels of the other are asked for: HR@10 in recall sets of 200, 95 % interval over queries. One
process with two threads, then two processes with one thread each, started by torchrun, on the same shards.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.half_split import parts
from benchmarks.harness import ROOT, save, table

SHARDS = 8


def worker(source: str, out: str, model: str, epochs: str, every: str, rule: str) -> None:
    """One process of a training; what torchrun starts."""
    from neatrec.distributed import joined, launched
    from neatrec.experiments.streaming import Streaming
    from neatrec.experiments.training import Plan, train_bundle
    from neatrec.models.together import Together
    from neatrec.sources import SourceOptions

    streaming = Streaming(source, SourceOptions(), at_least=SHARDS)
    plan = Plan(model=model, settings=(f"epochs={epochs}",))
    launch = launched()
    if launch is None:
        answer = train_bundle(streaming, Path(out), plan, threads=2, index=False)
    else:
        with joined(launch) as team:
            together = Together(team, int(every), rule)
            answer = train_bundle(streaming, Path(out), plan, threads=1, index=False, together=together)
    if answer:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps({"seconds": round(answer["train_seconds"], 1), "peak_mib": peak}))


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
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**said, "wall": round(time.perf_counter() - began, 1), "cpu": round(cpu, 1)}


def main(model: str, epochs: int, every: list[int], rules: list[str]) -> None:
    from neatrec.bundle import load_bundle
    from neatrec.evaluation.judge import judge
    from neatrec.evaluation.summary import summarise

    part = parts(None, True)[0]
    runs, judged = {}, {}
    ways = [(1, 0, "-"), *((2, interval, rule) for rule in rules for interval in every)]
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = Path(name)
        part.train.save(folder / "baskets")
        for processes, interval, rule in ways:
            key = "one process" if processes == 1 else f"two, {rule} after {interval}"
            options = [model, str(epochs), str(interval), rule]
            runs[key] = trained(folder / "baskets", folder / "bundle", options, processes)
            judged[key] = [judge(load_bundle(folder / "bundle"), part.exam.recall, part.exam.asked)]
            print(key, runs[key], flush=True)
    found = summarise(judged, part.exam.asked)
    for standing in found.standings:
        hr = {"hr": standing.mean["hr@10"], "low": standing.low["hr@10"], "high": standing.high["hr@10"]}
        runs[standing.name] |= {key: round(value, 4) for key, value in hr.items()}
    columns = ("hr", "low", "high", "seconds", "cpu", "peak_mib")
    print(table([["training", *columns], *([name, *(str(run[c]) for c in columns)] for name, run in runs.items())]))
    about = {"model": model, "epochs": epochs, "baskets": len(part.train), "lines": part.train.lines}
    about |= {"labels": found.labels, "queries": found.queries, "shards": SHARDS}
    options_said = f"--model {model} --epochs {epochs}"
    save(
        "distributed_training",
        {"about": about, "runs": runs},
        ("torch", "numpy"),
        file=f"distributed_training_{model}",
        options=options_said,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
        sys.exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="neat")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--every", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--rules", nargs="+", default=["sum", "mean"])
    main(**vars(parser.parse_args()))
