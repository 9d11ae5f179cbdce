"""`online config`: the settings in force, and where each came from."""

import json

import typer

from online.cli.options import ConfigOption, JsonOption, SetOption, StateOption
from online.cli.state import list_model_options, refuse_invalid_settings
from online.settings import LoadedSettings, Settings, load_with_origins, mask_password


def config(
    config: ConfigOption = None, state: StateOption = None, set: SetOption = None, as_json: JsonOption = False
) -> None:
    """Print the settings in force, and where each came from.

    Defaults are overridden by online.toml, that by ONLINE_* variables, and those by flags. Secrets
    are masked. With --json each setting also has its meaning.

    \b
    Examples:
      online config
      ONLINE_PORT=9000 online config --set max_waiting=4096
      online config --config online.toml --json
    """
    with refuse_invalid_settings():
        loaded = load_with_origins(config, set or (), list_model_options, state=state)
    if as_json:
        typer.echo(json.dumps({name: describe_setting(loaded, name) for name in Settings.model_fields}, indent=1))
        return
    lines = [("setting", "value", "from")]
    lines += [(name, show_setting(loaded, name), str(loaded.origins[name])) for name in Settings.model_fields]
    name_width, value_width = (max(len(line[column]) for line in lines) for column in (0, 1))
    for name, value, origin in lines:
        typer.echo(f"{name:<{name_width}}  {value:<{min(value_width, 40)}}  {origin}")


def describe_setting(loaded: LoadedSettings, name: str) -> dict[str, object]:
    """Return a setting with its value (masked if secret), its origin and its default."""
    origin = loaded.origins[name]
    return {
        "value": masked_values(loaded.settings)[name],
        "origin": origin.source,
        "origin_name": origin.name,
        "help": Settings.model_fields[name].description,
    }


def show_setting(loaded: LoadedSettings, name: str) -> str:
    """Return the value in one column. A model is shown by its name and kind; `--json` has all of it."""
    if name == "models":
        return ", ".join(f"{model.name} ({model.kind})" for model in loaded.settings.models)
    value = masked_values(loaded.settings)[name]
    return value if isinstance(value, str) else "-" if value is None else json.dumps(value)


def masked_values(settings: Settings) -> dict[str, object]:
    """Return values as JSON has them, without secrets and without the passwords of URLs."""
    values = settings.model_dump(mode="json")
    return {name: mask_password(value) if isinstance(value, str) else value for name, value in values.items()}
