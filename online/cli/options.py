"""The options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from online.errors import SetupError
from online.io.engines import EngineName
from online.schemas.fields import Language

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="ONLINE_CONFIG", help="TOML file of settings. Default: ./online.toml, if it exists."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, as in online.toml; may be repeated."),
]
StateOption = Annotated[
    Path | None, typer.Option("--state", help="Folder that holds all data of the service. Default: ./state.")
]
ModelsOption = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="NAMES",
        help="Serve and learn these only: names or patterns with commas between them, or a share such as 1/3. Default: all.",
    ),
]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="SQLAlchemy URL of the store. Default: SQLite in the state folder.")
]
StreamOption = Annotated[
    str | None, typer.Option("--stream", help="redis:// URL of the stream. Default: the store itself.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="Where the learner computes: auto, cpu, cuda, or one of several, such as cuda:1. Default: auto.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="Name of the model. May be left out if only one is configured.")
]
MaxBadRatioOption = Annotated[
    float,
    typer.Option("--max-bad-ratio", min=0, max=1, help="Largest share of unusable lines before the command fails."),
]
DelimiterOption = Annotated[
    str, typer.Option("--delimiter", help=r"Of a CSV: one character, or \t. Default: found in the file.")
]
DropOption = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Column of a table that is no feature, or a pattern such as 'vic*'. Repeatable."),
]
FeatureOption = Annotated[
    list[str] | None,
    typer.Option("--feature", help="Column, or pattern, that is a feature: all others are none. Repeatable."),
]
CostsOption = Annotated[
    str,
    typer.Option("--costs", help="LOW:HIGH range of the costs in Vowpal Wabbit files. Default: 0:1 or -1:0."),
]
ReportLanguageOption = Annotated[Language, typer.Option("--language", help="Of the report: en or de.")]
EngineOption = Annotated[
    EngineName, typer.Option("--engine", help="ray: share the work with the nodes of a Ray cluster.")
]
AddressOption = Annotated[
    str, typer.Option("--address", help="HOST:PORT of a Ray cluster, or auto. Default: start one here.")
]
SupervisedOption = Annotated[bool, typer.Option("--supervised", hidden=True)]


def parse_delimiter(text: str) -> str:
    """Return the delimiter of a CSV. Raises SetupError for what is not one character."""
    delimiter = "\t" if text in (r"\t", "tab") else text
    if len(delimiter) > 1 or delimiter in ("\n", "\r", '"'):
        raise SetupError(f"--delimiter takes one character, such as ';', or \\t, not {text!r}")
    return delimiter
