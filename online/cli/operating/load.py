"""`online load`: let a model begin with what files teach it, summed by several processes or a Ray cluster."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from online.cli.options import (
    AddressOption,
    ConfigOption,
    DelimiterOption,
    DropOption,
    EngineOption,
    FeatureOption,
    JsonOption,
    MaxBadRatioOption,
    ModelOption,
    SetOption,
    StateOption,
    StoreOption,
    parse_delimiter,
)
from online.cli.processes import keep_files_private
from online.cli.progress import show_bar
from online.cli.state import load_settings, open_workspace, select_model

if TYPE_CHECKING:
    from online.evaluation.sources.file_pieces import FilePiece, PieceReader
    from online.evaluation.sources.replay_source import ReadOptions, Source
    from online.io.engines import WorkEngine
    from online.io.progress import Progress
    from online.learning.bulk_load import BulkLoad, OpenPool
    from online.settings import ModelSettings
    from online.state.workspace import Workspace


def load(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="JSONL, CSV, Parquet, VW text, or - for stdin; in order.")
    ],
    model: ModelOption = None,
    label: Annotated[str, typer.Option("--label", help="Column of the right answer (CSV, Parquet).")] = "",
    format: Annotated[
        str, typer.Option("--format", help="jsonl, csv, parquet or vw. Default: by name and content.")
    ] = "",
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, max=1024, help="Processes that read and sum. Default: one for each core."),
    ] = None,
    engine: EngineOption = "here",
    address: AddressOption = "",
    drop: DropOption = None,
    feature: FeatureOption = None,
    delimiter: DelimiterOption = "",
    max_bad_ratio: MaxBadRatioOption = 0.0,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    set: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a model begin with the labelled rows of files, before the first feedback.

    The rows are read, encoded and summed by several processes, and merged in their order: the model is the same, to the
    last bit of every sum, however many they are. It becomes the base from which the learner starts, so load before
    the service runs for the first time. Nothing is kept of a load that is interrupted.

    Columns that only tell rows apart are left out, and dates become numbers, as in `online replay`; what was done with each is said.
    The first file shows it for all.

    The rows are not in the log of the model: they cannot be retracted or exported, and other options of the model need
    another load. Only exact kinds have sums: classifier, regressor, majority.

    With --engine ray the processes are those of a Ray cluster. This machine reads the files and cuts them into pieces, so that the nodes need not see
    them.

    \b
    Examples:
      online load history.jsonl.zst --model topics
      online load 2023.parquet 2024.parquet --label class --model topics --processes 16
      online load history.jsonl --engine ray --address head.example:6379
    """
    from online.evaluation.sources.column_choice import ColumnChoice
    from online.evaluation.sources.replay_source import ReadOptions
    from online.io.engines import check_engine, open_engine
    from online.io.records import ReadLimits
    from online.telemetry import configure_logging

    check_engine(engine, address)
    keep_files_private()
    settings = load_settings(config, set, state=state, store=store)
    configure_logging("warning", settings.log_format)
    columns, separator = ColumnChoice(tuple(drop or ()), tuple(feature or ())), parse_delimiter(delimiter)
    limits = ReadLimits.of(settings)
    reads = ReadOptions(format, label, max_bad_ratio=max_bad_ratio, limits=limits, columns=columns, delimiter=separator)
    with open_workspace(settings) as workspace:
        spec = select_model(settings, model)
        workspace.check_kinds()
        with workspace.lock_learner(wait=False):
            command = LoadCommand(workspace, spec, files, reads)

            def work(tick: "Progress") -> dict[str, Any]:
                with open_engine(engine, address, processes) as opened:
                    return command.run(opened, tick)

            done = show_bar(work)
    typer.echo(json.dumps(done) if as_json else describe(done))


class LoadCommand:
    """One load. Raises SetupError and BadInput before anything is learned."""

    def __init__(self, workspace: "Workspace", spec: "ModelSettings", files: list[str], reads: "ReadOptions") -> None:
        from online.evaluation.sources.bad_lines import BadLines
        from online.evaluation.sources.file_pieces import fit_files
        from online.learning.history import check_can_load
        from online.models import encoder_options

        self.workspace, self.spec, self.options = workspace, spec, workspace.options(spec)
        check_can_load(workspace, spec, self.options)
        wanted = str(encoder_options(spec.kind, self.options)["input"])
        self.sources, self.profile = fit_files(open_files(files, reads), wanted)
        self.bad, self.reads = BadLines(reads.max_bad_ratio), reads

    def run(self, engine: "WorkEngine | None", tick: "Progress") -> dict[str, Any]:
        """Load the files, and return what came of it. engine: None: this process does all."""
        from online.learning.history import publish_history
        from online.models.lazy_torch import use_one_thread

        use_one_thread()
        started = time.monotonic()
        load = self.create_load(engine)
        counts = load.learn(self.cut(load, tick))
        self.bad.check(counts.examples + self.bad.count)
        tick("writing the base", 1_000, 1_000)
        written = publish_history(self.workspace, self.spec, self.options, load.model, counts.examples)
        return {
            "model": self.spec.name,
            "examples": counts.examples,
            "summed_by_workers": counts.merged,
            "unusable_rows": self.bad.count,
            "unusable": self.bad.as_json(),
            "columns": [asdict(column) for column in self.profile.columns],
            "seconds": round(time.monotonic() - started, 3),
            "sha256": written.state_sha256,
        }

    def cut(self, load: "BulkLoad[FilePiece]", tick: "Progress") -> "Iterator[FilePiece]":
        """Yield the pieces of all files, reporting progress."""
        from online.evaluation.sources.file_pieces import cut_files

        def at(name: str, share: float) -> None:
            tick(f"{name}: {load.counts.examples:,} examples", int(1_000 * share), 1_000)

        return cut_files(self.sources, self.bad, at)

    def create_load(self, engine: "WorkEngine | None") -> "BulkLoad[FilePiece]":
        """Return a load of a new model."""
        from online.evaluation.sources.file_pieces import PieceReader
        from online.learning.bulk_load import BulkLoad
        from online.models import create, encoder_options

        tuned = self.workspace.encoders.obtain(str(self.options.get("encoder", "")))
        options, max_chars = encoder_options(self.spec.kind, self.options), self.workspace.settings.max_text_chars
        read = PieceReader(options, max_chars, tuned, self.profile, self.reads.columns)
        pool = None if engine is None else self.choose_pool(engine, read)
        return BulkLoad(create(self.spec.kind, self.options), read, pool, self.bad.add_all)

    def choose_pool(self, engine: "WorkEngine", read: "PieceReader") -> "OpenPool[FilePiece]":
        """Return what opens workers that sum pieces as a state of the model reads them."""
        from online.learning.piece_sums import create_summer, list_modules

        kind, options, rounds = self.spec.kind, self.options, read.encoder.is_slow
        return lambda state: engine.open_pool(create_summer(kind, options, state, read), list_modules(kind), rounds)


def open_files(files: list[str], reads: "ReadOptions") -> "list[Source]":
    """Open the files of a load. Raises SetupError for one that has a history."""
    from online.evaluation.sources.file_pieces import check_history
    from online.evaluation.sources.opening import open_sources

    sources = open_sources(files, reads)
    for source in sources:
        check_history(source)
    return sources


def describe(done: dict[str, Any]) -> str:
    """Return the line that a load prints at its end."""
    from online.evaluation.remarks import describe_columns
    from online.evaluation.sources.column_profile import ColumnProfile

    pace = done["examples"] / max(done["seconds"], 1e-9)
    unusable = (
        f", {done['unusable_rows']:,} rows could not be used: {'; '.join(done['unusable']['first'])}"
        if done["unusable_rows"]
        else ""
    )
    lines = describe_columns(ColumnProfile(**column) for column in done["columns"])
    return "".join(f"{line}\n" for line in [*lines, *done["unusable"]["first"]]) + (
        f"{done['model']} begins with {done['examples']:,} examples, learned in {done['seconds']:.1f} s "
        f"({pace:,.0f} a second){unusable}\nsha256 {done['sha256']}"
    )
