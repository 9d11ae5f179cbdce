"""Write the generated pages of the manual from the code.

    python docs/generate.py           write them
    python docs/generate.py --check   fail where one is not up to date

Each page is a pure function of the code: settings, commands, the OpenAPI document, metrics, the options of
every kind of model, and the tree of the packages.
"""

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTE = "<!-- Written by docs/generate.py: change the code, then run `make docs`. -->\n\n"
PACKAGES = {each.name.replace("-", "_"): each.name for each in (ROOT / "packages").iterdir()}  # package -> distribution
TREE_BEGIN, TREE_END = "<!-- tree -->\n", "<!-- end of tree -->\n"


def escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def distribution_of(contributed: Any) -> str | None:
    """Return the distribution of packages/ that a class or a function is part of; None for `online` itself."""
    return PACKAGES.get(contributed.__module__.partition(".")[0])


# settings


def settings_page() -> str:
    from online.settings import ModelSettings, PageTexts, Placement, Settings

    others = {name: each for each in Settings.__mro__ if (name := distribution_of(each))}
    contributed = {name for each in others.values() for name in each.model_fields}
    return (
        "# Settings\n\n"
        + NOTE
        + "Each setting is a key of `online.toml`, an environment variable `ONLINE_` followed by its name in capitals, and for\n"
        "many a flag of `online serve`. A flag wins over the environment, the environment over the file, and the file over the\n"
        "default. `online config` prints what is in force and where each value came from.\n\n"
        + field_table({name: each for name, each in Settings.model_fields.items() if name not in contributed})
        + "".join(
            f"\n## With `{name}`\n\n`pip install {name}` adds:\n\n{field_table(each.model_fields)}"
            for name, each in others.items()
        )
        + "\n## A model's table\n\nThe keys of one `[[models]]` table:\n\n"
        + field_table(ModelSettings.model_fields)
        + "\n## A placement's table\n\nThe keys of a `[models.placement]` table:\n\n"
        + field_table(Placement.model_fields)
        + "\n## A translation's table\n\nThe keys of a `[page_translations.de]` table. What it lacks is as the setting that it stands for says.\n\n"
        + field_table(PageTexts.model_fields)
    )


def field_table(fields: dict[str, Any]) -> str:
    rows = []
    for name, field in fields.items():
        rows.append([f"`{name}`", escape_cell(default_text(field)), escape_cell(field.description or "")])
    return table(["name", "default", "meaning"], rows)


def default_text(field: Any) -> str:
    from online.settings import Placement

    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or value == {} or isinstance(value, Placement):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" if isinstance(each, str) else f"`{each.name}` ({each.kind})" for each in value)
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else f"`{value}`"


# commands


def cli_page() -> str:
    from typer.main import get_command

    from online.cli.app import app

    parts = ["# Commands\n\n", NOTE, "`online COMMAND --help` prints the same.\n\n"]
    for name, command in visible_commands(get_command(app), "online"):
        parts.append(f"## `{name}`\n\n{command_text(command)}\n\n")
        rows = [parameter_row(each) for each in command.params if not getattr(each, "hidden", False)]
        if rows:
            parts.append(table(["argument or option", "default", "meaning"], rows) + "\n")
    return "".join(parts)


def visible_commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, each in sorted(getattr(command, "commands", {}).items()):
        if each.hidden:
            continue
        if hasattr(each, "commands"):
            yield from visible_commands(each, f"{name} {key}")
        else:
            yield f"{name} {key}", each


def command_text(command: Any) -> str:
    paragraphs = (command.help or "").replace("\\[", "[").split("\n\n")
    return "\n\n".join(example_block(each) or " ".join(each.split()) for each in paragraphs)


def example_block(paragraph: str) -> str:
    """The commands of a paragraph of examples, which begins with a backspace so that its lines are kept."""
    _, mark, lines = paragraph.partition("\b\n")
    return f"```sh\n{textwrap.dedent(lines.partition(chr(10))[2]).strip()}\n```" if mark else ""


def parameter_row(parameter: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    default = parameter.default
    shown = "" if default is None or default in ("", [], ()) or callable(default) else f"`{default}`"
    return [names, shown, escape_cell(str(getattr(parameter, "help", "") or "").replace("\\[", "["))]


# REST


def rest_page() -> str:
    from online.api.core_routers import ROUTES

    others = {each.path: name for each in ROUTES if (name := distribution_of(each.handler))}
    document = json.loads((ROOT / "frontend" / "openapi.json").read_text())
    parts = [
        "# REST\n\n",
        NOTE,
        "The running service shows the same with all fields at `/docs`, and `online openapi` prints the OpenAPI document. An error is\n"
        'always `{"error": "what is invalid, the value, what to do"}` with a fitting status, and changes nothing.\n\n',
    ]
    rows: dict[str | None, list[list[str]]] = {None: []}
    for path, methods in document["paths"].items():
        rows.setdefault(others.get(path), []).extend(
            [f"`{method.upper()} {path}`", escape_cell(operation.get("description") or operation.get("summary", ""))]
            for method, operation in methods.items()
            if method != "head" and not operation.get("deprecated")
        )
    for name, of_distribution in rows.items():
        parts.append(f"\n## With `{name}`\n\n`pip install {name}` adds:\n\n" if name else "")
        parts.append(table(["route", "what it does"], of_distribution))
    return "".join(parts)


# access


def access_page() -> str:
    from online.api.core_routers import ROUTES
    from online.plugins.grpc.server import list_rpcs
    from online.schemas.access.callers import SCOPE_HELP

    routes = [[f"`{each.method} {escape_cell(each.path)}`", access_cell(each.access)] for each in ROUTES]
    rpcs = [[f"`{name}`", access_cell(access)] for name, access in list_rpcs().items()]
    return (
        "# Who may do what\n\n"
        + NOTE
        + "A key has scopes (`online keys create`), and every route and RPC needs one. The pages and their files need none.\n\n"
        + table(["scope", "what it allows"], [[f"`{scope}`", text] for scope, text in SCOPE_HELP.items()])
        + "\n## HTTP\n\n`signed URL`, `share link`: the URL itself allows it. `own keys`: the route checks keys of its own, those of an integration or of the replicas of a cluster. "
        + "The exports and deltas of the format `learner`, and all of a model of tables, need `curate` as well, unless the model's "
        + "setting `share_sums` is true.\n\n"
        + table(["route", "needs"], routes)
        + "\n## gRPC\n\nHealth checks and reflection need nothing.\n\n"
        + table(["RPC", "needs"], rpcs)
    )


def access_cell(access: str) -> str:
    from online.schemas.access.callers import SCOPES

    return f"`{access}`" if access in SCOPES else access


# model options


def options_page() -> str:
    from online.models.registry import KINDS, describe_options
    from online.models.wrappers import list_wrappers

    parts = [
        "# Model options\n\n",
        NOTE,
        "The keys of `options` in a model's table, for each kind. A misspelt option is refused with a suggestion.\n\n",
    ]
    for kind in KINDS:
        parts.append(f"## `{kind}`\n\n" + options_table(describe_options(kind)) + "\n")
    for wrapper in list_wrappers():
        parts.append(f"## The table `{wrapper.option.name}`\n\n" + options_table(wrapper.list_options()))
    return "".join(parts)


def options_table(options: Any) -> str:
    rows = [
        [
            f"`{option.name}`",
            option.type,
            escape_cell(f"`{json.dumps(option.default)}`"),
            escape_cell(", ".join(each for each in (option.unit, option.allowed) if each)),
            escape_cell(option.help),
        ]
        for option in options
    ]
    return table(["option", "type", "default", "unit, allowed values", "meaning"], rows)


# metrics


def metrics_page() -> str:
    from online.telemetry import Metrics

    rows = []
    metrics = Metrics()
    for metric in (each for owner in (metrics, *metrics.parts) for each in vars(owner).values()):
        if hasattr(metric, "_documentation"):
            suffix = "_total" if metric._type == "counter" else ""
            labels = ", ".join(f"`{name}`" for name in metric._labelnames)
            rows.append([f"`{metric._name}{suffix}`", metric._type, labels, escape_cell(metric._documentation)])
    return (
        "# Metrics\n\n"
        + NOTE
        + "`GET /metrics` serves them in the format of Prometheus. With several workers the values are sums over all of them.\n\n"
        + table(["metric", "type", "labels", "meaning"], sorted(rows))
    )


# the tree


TREE_DEPTH = 2
COLUMN = 24  # where the descriptions of the tree begin


def tree() -> str:
    """Return the packages and the modules beside them, two levels deep, each with the first sentence of its docstring."""
    return "```\nonline/\n" + "\n".join(tree_lines(ROOT / "online", 1)) + "\n```\n"


def tree_lines(folder: Path, depth: int) -> Iterator[str]:
    """Yield the modules of the package `online` itself, and the packages down to TREE_DEPTH."""
    indent = "  " * depth
    for path in sorted(folder.glob("*.py")) if depth == 1 else ():
        if path.name not in ("__init__.py", "__main__.py"):
            yield f"{indent + path.name:<{COLUMN}} {first_sentence(path)}"
    for path in sorted(each for each in folder.iterdir() if each.is_dir() and any(each.rglob("*.py"))):
        sentence = first_sentence(path / "__init__.py") or first_sentence(path / "plugin.py")
        yield f"{indent + path.name + '/':<{COLUMN}} {sentence}".rstrip()
        if depth < TREE_DEPTH:
            yield from tree_lines(path, depth + 1)


def first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) if path.exists() else None
    paragraph = " ".join((docstring or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]


def architecture_page() -> str:
    path = DOCS / "explanation" / "architecture.md"
    before, _, rest = path.read_text().partition(TREE_BEGIN)
    _, _, after = rest.partition(TREE_END)
    return before + TREE_BEGIN + tree() + TREE_END + after


PAGES = {
    "reference/settings.md": settings_page,
    "reference/cli.md": cli_page,
    "reference/rest.md": rest_page,
    "reference/access.md": access_page,
    "reference/model-options.md": options_page,
    "reference/metrics.md": metrics_page,
    "explanation/architecture.md": architecture_page,
}


def main() -> int:
    check, stale = "--check" in sys.argv[1:], []
    for name, render in PAGES.items():
        path, text = DOCS / name, render()
        if check and (not path.exists() or path.read_text() != text):
            stale.append(name)
        elif not check:
            path.write_text(text)
    if stale:
        print(f"not up to date: {', '.join(stale)}; run: make docs", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
