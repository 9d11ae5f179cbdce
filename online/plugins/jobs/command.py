"""`online predict`: answer every row of a file without a service."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from online.cli.options import (
    AddressOption,
    ConfigOption,
    EngineOption,
    JsonOption,
    ModelOption,
    StateOption,
    StoreOption,
)
from online.cli.processes import limited_resources, lower_priority, read_parent_settings
from online.cli.progress import show_bar
from online.cli.state import load_settings, open_workspace, select_model
from online.errors import SetupError

if TYPE_CHECKING:
    from online.io.progress import Progress
    from online.plugins.jobs.batch_job import JobCounts

FileFormat = Literal["jsonl", "csv", "parquet"]


def predict(
    input: Annotated[Path, typer.Argument(metavar="IN", help="JSONL, CSV or Parquet; plain, .gz or .zst.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the results: new, empty, or that of the same job.")],
    model: ModelOption = None,
    version: Annotated[str, typer.Option("--version", help="Number or label of the version.")] = "latest",
    key: Annotated[
        str, typer.Option("--key", help="Field that identifies a row in the results. Default: the whole row.")
    ] = "",
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="Default: by the name of the file, else JSONL.")
    ] = None,
    shards: Annotated[int, typer.Option("--shards", min=1, max=100, help="Number of files of results.")] = 4,
    max_bad_ratio: Annotated[
        float,
        typer.Option("--max-bad-ratio", min=0, max=1, help="Largest share of failed rows before the job fails."),
    ] = 0.5,
    engine: EngineOption = "here",
    address: AddressOption = "",
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            min=1,
            max=1024,
            help="Processes that answer. Default: 1, or one for each core of a Ray cluster.",
        ),
    ] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer every row of a file by one version, in order. Run the same command again to resume.

    A service may run at the same time; the job reads its snapshots. The answers are not recorded, so
    feedback cannot refer to them.

    Several processes (--processes), or the nodes of a Ray cluster (--engine ray), give the same files, byte for byte. This
    machine reads the input and writes the results, so that the nodes need not see them.

    \b
    Examples:
      online predict questions.jsonl --out answers
      online predict rows.csv.gz --out scored --key id --version stable
      online predict rows.jsonl.zst --out scored --engine ray --address head.example:6379
    """
    from online.io.engines import check_engine, open_engine
    from online.models.lazy_torch import use_one_thread

    check_engine(engine, address)
    settings = load_settings(config, state=state, store=store)
    spec = select_model(settings, model)
    lower_priority()
    use_one_thread()
    from online.plugins.jobs.batch_job import JobSpec
    from online.plugins.jobs.offline import OfflineJob
    from online.state.workspace import is_signed

    if engine == "ray" and is_signed(spec):
        raise SetupError(
            f"the state of model {spec.name!r} is signed with a key that stays on this machine, so a cluster cannot load it: "
            "use --processes"
        )

    job = JobSpec(input.resolve(), out.resolve(), spec.name, version, key, format or "", shards)

    def work(tick: "Progress") -> "tuple[int, JobCounts]":
        try:
            with open_engine(engine, address, processes or (1 if engine == "here" else None)) as opened:
                return OfflineJob(workspace, spec, job, max_bad_ratio).run(opened, tick)
        except KeyboardInterrupt:
            typer.echo("online: stopped; run the same command again to resume", err=True)
            raise

    with open_workspace(settings) as workspace:
        number, counts = show_bar(work)
    if as_json:
        typer.echo(json.dumps({"version": str(number), **asdict(counts)}))
        return
    failed = f", {counts.errors:,} could not be answered: {out}/prediction.errors_stats-*" if counts.errors else ""
    typer.echo(f"{counts.results:,} rows were answered by version {number} of {spec.name} into {out}{failed}")


def read_rows(
    path: Path,
    format: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet.")],
    input: Annotated[str, typer.Option("--input", help="What the model reads: text, vector or table.")],
    key: Annotated[str, typer.Option("--key", help="Field that identifies a row.")] = "",
    count: Annotated[bool, typer.Option("--count", help="Print their number only.")] = False,
) -> None:
    """Print the rows of a batch job's input, for the service, which starts this command."""
    settings = read_parent_settings()
    lower_priority()
    from online.io.records import ReadLimits
    from online.plugins.jobs.batch_rows import DirectReader, RowsRequest
    from online.plugins.jobs.row_process import print_count, print_rows

    work = print_count if count else print_rows
    with limited_resources(settings):
        work(DirectReader(ReadLimits.of(settings)), RowsRequest(path, format, key, input))
