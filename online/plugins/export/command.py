"""`online export`: write a version as a file that answers without the service."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import ConfigOption, JsonOption, StateOption, StoreOption
from online.cli.processes import import_whole
from online.cli.progress import show_bar
from online.cli.state import load_settings, open_workspace, select_model
from online.errors import CannotExport, SetupError
from online.settings import ModelSettings, Settings

if TYPE_CHECKING:
    from online.io.progress import Progress
    from online.plugins.export.exporter import ExportedModel, RestoredVersion
    from online.plugins.export.formats import ExportFormat
    from online.serving.version_loader import VersionLoader
    from online.state.workspace import Workspace

ALL = "all"
LEARNER_FILE = "learner.safetensors"
STAYS_FLOAT = "  (float32 throughout: no matrix is large enough for int8, or all must stay exact)"


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """The result of one format. exported: None where `reason` says why it could not be written."""

    format: str
    exported: "ExportedModel | None"
    reason: str = ""


def export(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="May be left out if only one model is configured.")
    ] = None,
    version: Annotated[str, typer.Option("--version", help="Number or label of the version.")] = "latest",
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="onnx, onnx-int8, safetensors, executorch, litert; or all, a folder of each; or learner.",
        ),
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to create. Default: MODEL-VERSION-FORMAT in this one.")
    ] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a version as a file that gives the served answers elsewhere: in a browser, on a phone, in another program.

    The folder holds the file, manifest.json, and for texts tokenizer.json. The file contains the preprocessing: pass the numbers
    of a vector as they are, and token ids of a text. manifest.json names its inputs, outputs and classes.

    Before anything is written, the file answers recent and random inputs, and the largest difference from the served
    answers is printed. A service may run at the same time.

    learner writes the sums of a classifier, with which a browser or another program goes on learning.

    executorch and litert need an extra: pip install 'online[executorch]' or 'online[litert]'.

    \b
    Examples:
      online export digits
      online export digits --version stable --format onnx-int8 --out phone
      online export digits --format all
    """
    settings = load_settings(config, state=state, store=store)
    spec = select_model(settings, model)
    from online.plugins.export.learner_files import LEARNER

    write = export_learner_file if format == LEARNER else partial(export_answers, format)
    write(settings, spec, version, out, as_json)


def export_answers(
    format: str, settings: Settings, spec: ModelSettings, version: str, out: Path | None, as_json: bool
) -> None:
    """Write a version in one format, or in all of them."""
    from online.plugins.export.exporter import check_kind
    from online.plugins.export.formats import FORMATS, find_format
    from online.plugins.export.restoring import restore

    forms = list(FORMATS.values()) if format == ALL else [find_format(format)]
    with open_workspace(settings) as workspace:
        check_kind(spec.kind, spec.options)
        number = workspace.snapshots(spec.name).labels.resolve(version)
        folder = pick_folder(out, spec, number, format)

        def work(tick: "Progress") -> list[ExportOutcome]:
            tick(f"reading version {number}", 0, len(forms) + 1)
            import_whole("onnxruntime")
            restored = restore(workspace, version_loader(workspace, spec), number)
            with written_aside(folder) as aside:
                return write_all(restored, forms, aside, tick, is_nested=format == ALL)

        outcomes = show_bar(work)
    show(outcomes, folder, as_json)


def export_learner_file(settings: Settings, spec: ModelSettings, version: str, out: Path | None, as_json: bool) -> None:
    """Write the file with which a device goes on learning, of the newest version until this one whose sums are on the disk."""
    import asyncio

    from online.plugins.export.learner_files import LEARNER, LearnerFiles

    with open_workspace(settings) as workspace:
        files = LearnerFiles(workspace, version_loader(workspace, spec))
        file = asyncio.run(files.load(workspace.snapshots(spec.name).labels.resolve(version)))
    folder = pick_folder(out, spec, file.version, LEARNER)
    with written_aside(folder) as aside:
        write_durably(aside / LEARNER_FILE, file.data)
    path = str(folder / LEARNER_FILE)
    facts = json.dumps({"file": path, "version": file.version, "sha256": file.sha256})
    typer.echo(facts if as_json else f"the sums of version {file.version} are in {path}")


def version_loader(workspace: "Workspace", spec: ModelSettings) -> "VersionLoader":
    """Return a loader of a model's versions."""
    from online.serving.encoder_sources import EncoderCache, ModelSource
    from online.serving.version_loader import VersionLoader

    return VersionLoader(
        spec.kind, ModelSource(workspace, spec, EncoderCache(workspace)), workspace.snapshots(spec.name)
    )


def pick_folder(out: Path | None, spec: ModelSettings, version: int, format: str) -> Path:
    """Return the folder to create. Raises SetupError where it holds anything."""
    folder = out or Path(f"{spec.name}-{version}-{format}")
    check_folder(folder)
    return folder


def check_folder(folder: Path) -> None:
    """Raise SetupError for a folder that holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SetupError(f"{folder} exists and is not an empty folder; name a new one with --out")


@contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """Yield a folder that gets its name when the block has ended well, and is deleted when it is interrupted."""
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.absolute().parent, prefix=".export-"))
    try:
        yield aside
        aside.chmod(0o777 & ~read_umask())
        os.replace(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def read_umask() -> int:
    """Return the umask of this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_all(
    version: "RestoredVersion", forms: "list[ExportFormat]", folder: Path, tick: "Progress", is_nested: bool
) -> list[ExportOutcome]:
    """is_nested: whether each format gets a folder of its own, and one that cannot be written is left out."""
    from online.plugins.export.exporter import export as export_version

    outcomes = list[ExportOutcome]()
    for place, form in enumerate(forms, 1):
        tick(f"writing {form.name}", place, len(forms) + 1)
        try:
            exported = export_version(version, form)
        except CannotExport as error:
            if not is_nested:
                raise
            outcomes.append(ExportOutcome(form.name, None, str(error)))
            continue
        write_files(exported, folder / form.name if is_nested else folder)
        outcomes.append(ExportOutcome(form.name, exported))
    if not any(outcome.exported for outcome in outcomes):
        raise CannotExport(outcomes[0].reason)
    return outcomes


def write_files(exported: "ExportedModel", folder: Path) -> None:
    """Write the file, its manifest and what it needs beside them."""
    from online.plugins.export.inputs import tokenizer_file

    folder.mkdir(exist_ok=True)
    manifest = exported.manifest
    write_durably(folder / manifest.file, exported.data)
    text = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False)
    write_durably(folder / "manifest.json", text.encode())
    if manifest.description.tokenizer_sha256:
        write_durably(folder / "tokenizer.json", tokenizer_file().read_bytes())


def write_durably(path: Path, data: bytes) -> None:
    """Write a file so that it survives a power failure."""
    from online.io.atomic import write_file

    write_file(path, data, durable=True)


def show(outcomes: list[ExportOutcome], folder: Path, as_json: bool) -> None:
    """Print the written files and the formats that were left out."""
    if as_json:
        manifests = [each.exported.manifest.to_json() for each in outcomes if each.exported]
        left_out = {each.format: each.reason for each in outcomes if each.exported is None}
        typer.echo(json.dumps({"folder": str(folder), "exports": manifests, "left_out": left_out}))
        return
    typer.echo(f"{'format':<12} {'bytes':>12}  largest difference  equal choices  right answers")
    for outcome in outcomes:
        typer.echo(
            format_row(outcome.exported) if outcome.exported else f"{outcome.format:<12} left out: {outcome.reason}"
        )
    subject = next(each.exported for each in outcomes if each.exported).manifest.description.subject
    typer.echo(f"version {subject.version} of {subject.model} is in {folder}")


def format_row(exported: "ExportedModel") -> str:
    """Return a line of the table: what was measured, and the share of right answers of the served model and of the file."""
    manifest, measured = exported.manifest, exported.manifest.measured
    line = f"{manifest.description.format:<12} {manifest.bytes:>12,}"
    if measured is None:
        return line
    right = ""
    if measured.accuracy is not None and measured.served_accuracy is not None:
        right = f"{100 * measured.accuracy:.1f} % (served: {100 * measured.served_accuracy:.1f} %)"
    figures = f"{line}  {measured.largest_difference:>18.1e}  {100 * measured.agreement_ratio:>11.1f} %  {right}"
    return figures.rstrip() + (STAYS_FLOAT if manifest.int8_products == 0 else "")
