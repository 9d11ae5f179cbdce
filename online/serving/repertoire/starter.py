"""The first repertoire of a ranker: read from a file, by default the one that is shipped."""

import logging
from collections.abc import Sequence
from pathlib import Path

from online.errors import SetupError
from online.models import spec_of
from online.schemas.replies import NewReply
from online.settings import ModelSettings, Settings
from online.store.database.values import fold_text
from online.store.repertoire.replies import normalize_text
from online.telemetry import log_event

log = logging.getLogger("online.serving")


def read_starter(settings: Settings, spec: ModelSettings) -> list[NewReply]:
    """Return the first replies of a model; none for a kind without a repertoire. Raises SetupError."""
    return read_repertoire(settings.repertoire or starter()) if spec_of(spec.kind).has_repertoire else []


def read_repertoire(path: Path) -> list[NewReply]:
    """Read a JSONL file of {"id", "text", "examples"}. Raises SetupError that names the line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise SetupError(f"the repertoire {path} cannot be read: {error.strerror}") from None
    replies = []
    for number, line in enumerate(lines, 1):
        try:
            replies += [NewReply.model_validate_json(line)] if line.strip() else []
        except ValueError:
            raise SetupError(
                f'the repertoire {path}, line {number}: expected {{"id", "text", "examples": [...]}}'
            ) from None
    return replies


def find_shared_examples(replies: Sequence[NewReply]) -> list[tuple[str, str, str]]:
    """(example, the reply that has it first, the reply that has it later) of examples under two replies, which are named by texts."""
    first, shared = dict[str, str](), list[tuple[str, str, str]]()
    for reply in replies:
        for example in reply.examples:
            owner = first.setdefault(fold_text(example), reply.text)
            if normalize_text(owner) != normalize_text(reply.text):
                shared.append((example, owner, reply.text))
    return shared


def starter() -> Path:
    """Return the shipped repertoire: inside an installed package, or next to the sources."""
    package = Path(__file__).parents[2]
    return next(
        path
        for path in (package / "data" / "repertoire.jsonl", package.parent / "data" / "repertoire.jsonl")
        if path.exists()
    )


def report_shared_examples(model: str, replies: Sequence[NewReply]) -> None:
    """Warn of examples that a first repertoire has under two replies: the one that is learned last counts."""
    shared = find_shared_examples(replies)
    if shared:
        example, first, later = shared[0]
        event = "examples under two replies: the later one counts"
        facts = {"count": len(shared), "example": example, "first": first, "later": later}
        log_event(log, event, logging.WARNING, model=model, **facts)
