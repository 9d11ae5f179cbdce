"""`online replay`: judge models on a recorded stream, example by example."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import (
    AddressOption,
    CostsOption,
    DelimiterOption,
    DropOption,
    EngineOption,
    FeatureOption,
    JsonOption,
    MaxBadRatioOption,
    ReportLanguageOption,
    parse_delimiter,
)
from online.cli.progress import show_bar
from online.cli.state import load_settings
from online.errors import SetupError
from online.installed import collect_one
from online.schemas.fields import Language
from online.settings import Drift

if TYPE_CHECKING:
    from online.evaluation.replay.candidate_specs import CandidateSpec
    from online.evaluation.replay.replay import ScoredSpan
    from online.evaluation.replay.replay_report import LogResults, WritePage
    from online.evaluation.sources.replay_source import Source
    from online.io.progress import Progress

LogsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="An exported log, JSONL, CSV, Parquet, VW text, dsjson, river:NAME, sklearn:NAME, or - for stdin.",
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="KIND or KIND:NAME=VALUE,...; or package.module:Class of your own. Repeat to compare several.",
    ),
]
CandidatesOption = Annotated[
    Path | None, typer.Option("--candidates", help="TOML file of [[candidate]] tables: kind, options, grid.")
]
ValuesOption = Annotated[
    list[str] | None, typer.Option("--option", help="NAME=VALUE for every --model; may be repeated.")
]
LabelOption = Annotated[str, typer.Option("--label", help="Column of the class or number to predict (CSV, Parquet).")]
FormatOption = Annotated[
    str, typer.Option("--format", help="jsonl, csv, parquet, vw or dsjson. Default: by name and content.")
]
DelayOption = Annotated[
    str,
    typer.Option(
        "--delay", help="When labels arrive: after so many examples, after a time (3600s), or as a column says."
    ),
]
AtOption = Annotated[str, typer.Option("--at", help="Column with the time of each example, for --delay.")]
TaskOption = Annotated[
    str, typer.Option("--task", help="Column that names the task of each example; a fifth of each is held out.")
]
EveryOption = Annotated[int, typer.Option("--every", min=1, help="Learn in batches of so many examples.")]
FromOption = Annotated[int, typer.Option("--from-offset", min=0, help="Score after this offset only.")]
ToOption = Annotated[int | None, typer.Option("--to-offset", min=1, help="Last offset to replay.")]
DeviceOption = Annotated[
    str,
    typer.Option("--device", help="Where the models compute: auto, cpu, cuda, or one of several, such as cuda:1."),
]
DriftOption = Annotated[
    Drift | None,
    typer.Option("--drift", help="Default: as in the service that wrote the log, else act, as a service has it."),
]
BaselineOption = Annotated[
    bool,
    typer.Option(
        "--baseline/--no-baseline", help="Let a logistic model learn beside each one, and say if that is far ahead."
    ),
]
CurvesOption = Annotated[Path | None, typer.Option("--csv", help="File to write the learning curves to.")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="HTML file to write all results to, with plots.")]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", help="Folder where ray keeps finished results. Default: ./replays.")
]
TextCacheOption = Annotated[
    bool,
    typer.Option("--text-cache/--no-text-cache", help="Keep features of texts in the cache folder of the user."),
]


def replay(
    logs: LogsArgument,
    model: ModelsOption = None,
    candidates: CandidatesOption = None,
    option: ValuesOption = None,
    label: LabelOption = "",
    format: FormatOption = "",
    drop: DropOption = None,
    feature: FeatureOption = None,
    delimiter: DelimiterOption = "",
    costs: CostsOption = "",
    delay: DelayOption = "0",
    at: AtOption = "",
    task: TaskOption = "",
    every: EveryOption = 1,
    from_offset: FromOption = 0,
    to_offset: ToOption = None,
    max_bad_ratio: MaxBadRatioOption = 0.0,
    device: DeviceOption = "cpu",
    drift: DriftOption = None,
    baseline: BaselineOption = True,
    csv: CurvesOption = None,
    report: ReportOption = None,
    language: ReportLanguageOption = "en",
    engine: EngineOption = "here",
    address: AddressOption = "",
    results: ResultsOption = None,
    keep_texts: TextCacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Replay recorded streams through models, and score them.

    Each example is predicted, scored and then learned, in order. The first model is the champion;
    the others are compared with it.

    With --engine ray each pair of model and log is a task on a Ray cluster, whose nodes find the
    logs at the same paths. Finished results are kept in --results: run the same command again to
    resume.

    --drop and --feature choose the features of tables: CSV, Parquet, JSONL of objects, river's data,
    Vowpal Wabbit's, and logs of feedback on objects. All models see the same ones. A column that is
    left out can still be --at or --task.

    \b
    Examples:
      online replay river:Phishing --model classifier
      online replay log.jsonl.zst --model ranker --json
      online replay elec.csv --label class --delay 48 --model logistic --model river:estimator=arf
      online replay elec.csv --label class --drop period --drop 'vic*' --model classifier
      online replay elec.csv --label class --feature nswprice --feature nswdemand --model classifier
      online replay logs/*.jsonl.zst --candidates grid.toml --engine ray --results ./replays
    """
    from online.evaluation.replay.candidate_files import collect_candidates, parse_options
    from online.evaluation.replay.candidate_specs import CandidateSpec
    from online.evaluation.replay.model_setup import check_candidates
    from online.evaluation.replay.replay import ScoredSpan
    from online.evaluation.replay_table import find_exit_status
    from online.evaluation.sources.arrival import LabelDelay
    from online.evaluation.sources.column_choice import ColumnChoice
    from online.evaluation.sources.opening import open_sources
    from online.evaluation.sources.replay_source import ReadOptions
    from online.evaluation.sources.vw_survey import parse_cost_range
    from online.io.records import ReadLimits
    from online.models.devices.placement import choose_device

    check_options(logs, report, engine, address, results)
    # 1. How the logs are read, and by which models.
    reads = ReadOptions(
        format,
        label,
        LabelDelay.parse(delay, at),
        max_bad_ratio,
        task,
        parse_cost_range(costs),
        limits=ReadLimits.of(load_settings(None)),
        keeps_features=keep_texts,
        columns=ColumnChoice(tuple(drop or ()), tuple(feature or ())),
        delimiter=parse_delimiter(delimiter),
    )
    template = CandidateSpec(
        "", device=choose_device(device), drift=drift, every=every, from_operator=True, baseline=baseline
    )
    models = collect_candidates(model or [], parse_options(option or []), candidates, template)
    # 2. Each log through each model.
    sources = open_sources(logs, reads)
    check_candidates(sources, models)
    plan = ReplayPlan(sources, models, ScoredSpan(from_offset, to_offset), max_bad_ratio)
    run = partial(run_here, plan) if engine == "here" else partial(run_on_ray, plan, address, results)
    log_results = show_bar(run)
    # 3. What came out.
    write_files(log_results, csv, report, language)
    print_json(log_results) if as_json else print_table(log_results)
    raise typer.Exit(find_exit_status(log_results))


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A plan of replays: a span of every log through every model. max_bad_ratio: of a log's lines."""

    sources: "list[Source]"
    models: "list[CandidateSpec]"
    span: "ScoredSpan"
    max_bad_ratio: float


def run_here(plan: ReplayPlan, tick: "Progress") -> "list[LogResults]":
    """Replay in processes of this machine."""
    from online.evaluation.replay.runs import replay_logs

    return replay_logs(plan.sources, plan.models, plan.span, plan.max_bad_ratio, tick)


def run_on_ray(plan: ReplayPlan, address: str, results: Path | None, tick: "Progress") -> "list[LogResults]":
    """Replay as tasks of a Ray cluster, with a folder of finished results if one is named."""
    from online.evaluation.replay.ray_replay import replay_on_ray
    from online.evaluation.replay.results_cache import ResultsFolder

    folder = ResultsFolder.opened(results or Path("replays"), lambda line: typer.echo(line, err=True))
    return replay_on_ray(address, folder, plan.sources, plan.models, plan.span, tick)


def check_options(logs: list[str], report: Path | None, engine: str, address: str, results: Path | None) -> None:
    """Raise SetupError for options that exclude each other."""
    if report is not None and len(logs) > 1:
        raise SetupError(f"--report writes a page about one log, and {len(logs)} are given; give it one")
    if report is not None:
        find_page_writer()  # before hours of work
    if engine == "here" and (address or results):
        raise SetupError("--address and --results need --engine ray")


def print_json(log_results: "list[LogResults]") -> None:
    """Print the results as JSON."""
    from online.evaluation.replay_files import results_as_json

    typer.echo(json.dumps(results_as_json(log_results)))


def print_table(log_results: "list[LogResults]") -> None:
    """Print the results as tables."""
    from rich.console import Console

    from online.evaluation.replay_table import print_results

    print_results(log_results, Console())


def write_files(log_results: "list[LogResults]", csv: Path | None, report: Path | None, language: Language) -> None:
    """Write the curves and the report to the files that the options name."""
    if csv is not None:
        from online.evaluation.replay_files import write_curves

        write_curves(log_results, csv)
    if report is not None:
        (played,) = log_results
        find_page_writer()(played, report, language)


def find_page_writer() -> "WritePage":
    """Return the function that writes pages. Raises SetupError where no plugin writes pages."""
    writer: WritePage | None = collect_one("replay_page", None)
    if writer is None:
        raise SetupError("--report needs the plugin `reports`, which is not installed; --json and --csv need none")
    return writer
