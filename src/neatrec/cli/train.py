"""`neatrec train`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import (
    HALF_LIFE_HELP,
    SPARK_MASTER,
    STRATA_HELP,
    SourceArguments,
    connect_spark,
    option,
    parse_memory_limit,
    parse_strata,
)
from neatrec.cli.output import OutputOptions, ShowProgress, close_bar, found_words, print_json
from neatrec.cli.show import print_config as print_config_of
from neatrec.cli.show import print_coverage, print_rankings, ranking_words
from neatrec.cli.signals import at_a_safe_moment
from neatrec.errors import ParameterError, must_be
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.training.streaming import StreamOptions
    from neatrec.training.train import ModelChoice

log = logging.getLogger(__name__)
ONLY_TRAINED = ("half_life", "vectors", "warm_start")


def _print_config(name: str | None) -> None:
    if name is not None:
        print_config_of(name)
        raise typer.Exit


@dataclass(frozen=True)
class TrainingArguments:
    """How to train: `TrainOptions` by name."""

    panel = "Training"
    device: str = option("auto", metavar="auto|cpu|gpu", help="Train and make the serving table on this device.")
    threads: int | None = option(None, help="Use so many threads. Default: all cores.")
    seed: int = option(0, min=0, help="Draw all random numbers from this seed.")
    reproducible: bool = option(False, "--reproducible", help="Give the same bits at any thread count.")
    resume: bool = option(False, "--resume", help="Continue from the checkpoint beside DIR, if there is one.")
    validation_share: float = option(
        0.0,
        "--validation",
        help="Keep this share of the baskets out of training, and stop when their loss has not fallen for two "
        "epochs (the bundle holds the last epoch, not the best). For models that train in epochs.",
    )
    strata: list[str] | None = option(None, metavar="A,B|none", help=STRATA_HELP)
    half_life: str | None = option(None, metavar="90d|none", help=HALF_LIFE_HELP)
    keep_users: bool = option(False, "--keep-users", help="Keep user ids and vectors in the bundle.")
    vectors: Path | None = option(
        None,
        metavar="F.parquet",
        help="Use vectors of items by any encoder of names or pictures (columns id, vector), for items that few "
        "or no baskets hold. For bayes.",
    )
    warm_start: Path | None = option(
        None,
        metavar="BUNDLE",
        help="Start from an older bundle, or the live one of a store (with its model and parameters by "
        "default, and a fifth of the usual epochs), and report what changed.",
    )


@dataclass(frozen=True)
class TableArguments:
    """Options of the serving table."""

    panel = "Serving table"
    index: bool = option(True, "--index/--no-index", help="Write the serving table with its evidence.")
    ann: bool | None = option(
        None,
        "--ann/--exact",
        help="Write an approximate serving table, for millions of items (needs faiss; its measured recall is "
        "reported).",
        show_default=False,
    )
    k: int | None = option(None, "-k", help="Keep so many answers per item. Default: 100.")
    rewrite_table: bool = option(
        False,
        "--rewrite-table",
        help="Train nothing: write the serving table of an existing bundle again. SOURCE is the bundle, or the "
        "baskets that the bundle DIR learned from if it has no table yet.",
    )
    report: Path | None = option(
        None,
        metavar="REPORT",
        help="Attach a report, whose leaderboard and tables the page shows; with --rewrite-table.",
    )


@dataclass(frozen=True)
class LargeDataArguments:
    """Options for more baskets than memory, and for several processes."""

    panel = "Large data, several processes"
    stream: bool = option(
        False,
        "--stream",
        help="Write the baskets as temporary shards beside DIR and hold one in memory at a time.",
    )
    shard_lines: int | None = option(None, min=1, help="Write so many lines per shard. Default: two million.")
    memory_limit: str | None = option(
        None,
        metavar="SIZE",
        help="Use so much memory for counting pairs (--engine), or for writing shards (--stream: by default 1GiB, and "
        "up to 4GiB where that is too little).",
    )
    engine: str = option(
        "auto",
        metavar="auto|memory|disk|spark",
        help="Count pairs with this engine, for the model and its table; the model is the same.",
    )
    spark_master: str | None = option(None, **SPARK_MASTER)
    sync_every: int | None = option(
        None,
        min=1,
        metavar="BASKETS",
        help="Synchronize after so many baskets per process, under torchrun. Default: 1024, on GPUs 4096.",
    )

    def require_stream(self) -> None:
        """Refuse what only a stream uses."""
        if self.shard_lines is not None:
            raise must_be("--shard-lines", "given with --stream", self.shard_lines)
        if self.memory_limit is not None and self.engine == "auto":
            raise must_be("--memory-limit", "given with --stream or --engine", self.memory_limit)

    def counting(self, threads: int | None) -> dict[str, Any]:
        """The engine that counts and its limit, as `TrainOptions` takes them; Spark is started."""
        limit = None if self.engine == "auto" else parse_memory_limit(self.memory_limit)
        connect_spark(self.engine, self.spark_master, threads, limit)
        return {"engine": self.engine, "memory_limit": limit}

    def streaming(self, source: SourceArguments) -> StreamOptions:
        from neatrec.io.shards import SHARD_LINES
        from neatrec.training.streaming import StreamOptions

        memory = parse_memory_limit(self.memory_limit)
        return StreamOptions(source.source, source.options, self.shard_lines or SHARD_LINES, memory)


def train(
    source: SourceArguments,
    output: OutputOptions,
    table: TableArguments,
    large: LargeDataArguments,
    *,
    out: Path = typer.Option(
        Path("neatrec-bundle"),
        metavar="DIR",
        help="Write the bundle into this folder; an older one is replaced at the end.",
    ),
    model: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Train this model. Default: bayes, which ranks for high lifts and certain pairs alike; see --set goal=.",
    ),
    preset: str | None = typer.Option(
        None, metavar="NAME", help="Use named settings: `paper`, as the paper states them; a goal of bayes."
    ),
    settings: list[str] | None = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="Set a parameter of the model; may be repeated."
    ),
    config: Path | None = typer.Option(
        None, metavar="F.toml", help="Read model, preset and parameters from this file."
    ),
    print_config: str | None = typer.Option(
        None,
        metavar="NAME|all",
        help="Print the parameters of a model and their defaults as TOML for --config, and leave.",
        is_eager=True,
        callback=_print_config,
    ),
    training: TrainingArguments,
) -> None:
    """Train a model and write it as a bundle.

    Started by torchrun (`torchrun --nproc-per-node 2 -m neatrec train ...`) several processes train one model.
    """
    named, columns = parse_strata(training.strata)
    if table.rewrite_table:
        learning = {"--model": model, "--preset": preset, "--set": settings, "--config": config}
        learning |= {f"--{name.replace('_', '-')}": getattr(training, name) for name in ONLY_TRAINED}
        for option, value in learning.items():
            if value is not None:
                raise must_be(option, "left out with --rewrite-table, which trains nothing", str(value))
        how = {"strata": named, "threads": training.threads, "device": training.device}
        _rewrite_table(output, source, out, columns, table, **how)
        return
    if table.report is not None:
        raise must_be("--report", "given with --rewrite-table", str(table.report))
    from neatrec.training.distributed import LaunchEnvironment, train_distributed
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

    choice = ModelChoice(model=model, preset=preset, settings=tuple(settings or ()))
    if config is not None:
        choice = read_training_toml(config).updated(choice)
    launch = LaunchEnvironment.read()
    if launch is None and large.sync_every is not None:
        raise must_be("--sync-every", "given where torchrun starts several processes", large.sync_every)
    options = TrainOptions(
        **{**vars(training), "strata": named},
        index=table.index,
        ann=bool(table.ann),
        k=table.k,
        **large.counting(training.threads),
        sync_every=large.sync_every,
        progress=ShowProgress(output),
        stopping=at_a_safe_moment,
    )
    if launch is not None:
        answer = train_distributed(launch, large.streaming(source), out, choice, options)
    elif large.stream:
        answer = train_bundle(large.streaming(source), out, choice, options)
    else:
        large.require_stream()
        answer = train_bundle(lambda: source.read(attributes=columns).baskets, out, choice, options)
    close_bar()  # an early stop leaves it
    if not answer:
        return  # the first process prints the result
    if not output.printed_json(answer):
        if output.verbose:
            print_rankings(answer)
        if "pairs" in answer:
            print(found_words(answer["pairs"], answer["coverage"]) + ranking_words(answer))
        cost = f"{answer['model']}, {answer['train_seconds']:.1f} s, {answer['peak_mb']:,.0f} MB"
        print(f"bundle in {printable(out)} ({cost}): neatrec serve {printable(out)}")


def _rewrite_table(
    output: OutputOptions,
    source: SourceArguments,
    out: Path,
    attributes: tuple[str, ...],
    table: TableArguments,
    **options: Any,
) -> None:
    from neatrec.bundle import is_bundle
    from neatrec.report.attachment import read_report
    from neatrec.serving import ServingTable, rewrite_index, table_words

    attachment = None if table.report is None else read_report(table.report)
    named = is_bundle(Path(source.source))
    bundle, baskets = (Path(source.source), None) if named else (out, source.read(attributes=attributes).baskets)
    rewrite_index(bundle, baskets=baskets, attachment=attachment, k=table.k, ann=table.ann, **options)
    opened = ServingTable.open(bundle)
    if output.as_json:
        answers = {"answers": len(opened.columns["item"]), "coverage": opened.coverage()}
        about = {"bundle": str(bundle), "version": opened.version, "k": opened.k, "recall": opened.recall}
        print_json({**about, **answers})
        return
    print(f"{len(opened.columns['item']):,} answers, at most {opened.k} per item, in {bundle}")
    print(table_words(opened.recall))
    print_coverage(opened.coverage())


def read_training_toml(path: Path) -> ModelChoice:
    """`model`, `preset` and a `[parameters]` table."""
    from neatrec.io.options import read_toml
    from neatrec.training.train import ModelChoice

    kinds = {"model": str, "preset": str, "parameters": dict}
    table = read_toml(path)
    for key, value in table.items():
        if not isinstance(value, kinds.get(key, ())):
            wanted = "text" if key in ("model", "preset") else "a table" if key in kinds else "left out"
            raise ParameterError(
                f"{printable(path)}: key {printable(key)!r}: must be {wanted}",
                file=str(path),
                hint="The file may hold model, preset and a [parameters] table.",
            )
    return ModelChoice(**table)
