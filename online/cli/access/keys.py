"""`online keys`: create, list, rotate and revoke API keys."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import ConfigOption, JsonOption, StateOption, StoreOption
from online.cli.state import load_settings, open_workspace
from online.errors import SetupError
from online.schemas.access.callers import SCOPE_HELP, SCOPES

if TYPE_CHECKING:
    from online.api.auth.key_changes import NewKey

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the key.")]
ScopesOption = Annotated[
    str,
    typer.Option("--scopes", metavar="SCOPE,...", help=f"What it may do: {', '.join(SCOPES)}; or `all`."),
]
ModelsOption = Annotated[
    str | None, typer.Option("--models", metavar="NAME,...", help="The only models that it may use. Default: all.")
]
ExpiresOption = Annotated[
    str | None, typer.Option("--expires", metavar="DURATION", help="After 12h, 30d or 52w. Default: never.")
]
GraceOption = Annotated[
    str, typer.Option("--grace", metavar="DURATION", help="How long the old key is still accepted: 0h, 24h, 7d.")
]
UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def create(
    name: Annotated[str, typer.Option("--name", help="A name for the list of keys, such as the application's.")],
    scopes: ScopesOption = "predict,feedback",
    models: ModelsOption = None,
    expires: ExpiresOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it. It is shown this once: only its digest is stored.

    A running service accepts it at once. As soon as there is a key, callers need one.

    \b
    Examples:
      online keys create --name website --scopes predict,feedback,impersonate
      online keys create --name alice --scopes all --expires 90d
    """
    from online.api.auth.key_changes import create_key
    from online.api.auth.keys import utc_now

    chosen = list(SCOPES) if scopes == "all" else split(scopes)
    with open_workspace(load_settings(config, state=state, store=store)) as workspace:
        expires_at = None if expires is None else utc_now() + parse_duration(expires, "--expires")
        new = create_key(workspace.store, name, chosen, None if models is None else split(models), expires_at)
    show_new(new, as_json)


def list_keys(
    state: StateOption = None, config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """List the keys, with what each may do.

    \b
    Examples:
      online keys list
      online keys list --json
    """
    from online.api.auth.key_changes import describe_key
    from online.store.callers.api_keys import load_keys

    with open_workspace(load_settings(config, state=state, store=store)) as workspace:
        keys = [describe_key(row) for row in workspace.store.read(load_keys)]
    if as_json:
        echo_json({"keys": [key.model_dump() for key in keys]})
        return
    for key in keys:
        state_of_key = f"revoked {key.revoked_at}" if key.revoked_at else f"expires {key.expires_at or 'never'}"
        models = ", ".join(key.models) if key.models is not None else "all models"
        typer.echo(f"{key.prefix}...  {key.name}  {', '.join(key.scopes)}  {models}  {state_of_key}")
    if not keys:
        typer.echo("there are no keys; create one with: online keys create --name NAME --scopes predict,feedback")


def revoke(
    name: NameArgument, state: StateOption = None, config: ConfigOption = None, store: StoreOption = None
) -> None:
    """Revoke a key. A running service refuses it after a second at most.

    \b
    Examples:
      online keys revoke website
    """
    from online.api.auth.key_changes import revoke_key

    with open_workspace(load_settings(config, state=state, store=store)) as workspace:
        revoked = revoke_key(workspace.store, name)
    typer.echo(f"revoked {len(revoked)} key{'s' * (len(revoked) != 1)} named {revoked[0].name}")


def rotate(
    name: NameArgument,
    grace: GraceOption = "24h",
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a new key in the place of an old one, which stays valid for a while.

    \b
    Examples:
      online keys rotate website --grace 7d
    """
    from online.api.auth.key_changes import rotate_key
    from online.api.auth.keys import utc_now

    with open_workspace(load_settings(config, state=state, store=store)) as workspace:
        new = rotate_key(workspace.store, name, utc_now() + parse_duration(grace, "--grace"))
    show_new(new, as_json)


def rotate_signing(
    purposes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PURPOSE]...", help="links, cookies, river, stream, erasure, audit, peers."),
    ] = None,
    grace_days: Annotated[
        float | None,
        typer.Option(
            "--grace-days", help="Days for which the old keys still verify. Default: 30 for links and cookies."
        ),
    ] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Replace the keys with which the service signs. A running service follows within a second.

    Where replicas share a store and have the same ONLINE_SECRET, all of them follow: the new keys sign once each of them
    verifies with them, after three seconds.

    \b
    Examples:
      online keys rotate-signing
      online keys rotate-signing links cookies --grace-days 0
    """
    from online.state.shared_keys import rotate_shared_keys

    settings = load_settings(config, state=state, store=store)
    try:
        rotated = rotate_shared_keys(settings, purposes or (), grace_days)
    except ValueError as error:
        raise SetupError(str(error)) from None
    for key in rotated:
        until = f"until {key.expires_at}" if key.expires_at else "without end"
        typer.echo(f"{key.purpose}: {key.id} signs from now on; {key.replaced_id} verifies {until}")


def share_signing(state: StateOption = None, config: ConfigOption = None, store: StoreOption = None) -> None:
    """Let the signing keys of this state folder be those of the store on Postgres, in the place of any others.

    For a store whose keys are lost: the machine that had them is gone, or the ONLINE_SECRET that encrypts them. With an
    ONLINE_SECRET every replica that has the same one takes over these keys; without, this folder alone serves the store.
    What other keys have signed is no longer valid.

    \b
    Examples:
      ONLINE_SECRET=... online keys share-signing --store postgresql://...
    """
    from online.state.shared_keys import share_signing_keys

    settings = load_settings(config, state=state, store=store)
    share_signing_keys(settings)
    how = "encrypted with ONLINE_SECRET" if settings.secret else "noted, for this state folder only"
    typer.echo(f"the signing keys of {settings.state} are those of the store from now on: {how}")


def scopes() -> None:
    """Explain the scopes.

    \b
    Examples:
      online keys scopes
    """
    for scope in SCOPES:
        typer.echo(f"{scope:12} {SCOPE_HELP[scope]}")


def split(text: str) -> list[str]:
    """Return the parts of a list separated by commas, without blanks."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_duration(text: str, option: str) -> timedelta:
    """12h, 30d or 52w. Raises SetupError."""
    number, unit = text[:-1], UNITS.get(text[-1:])
    try:
        if unit is None:
            raise ValueError
        return float(number) * unit
    except (ValueError, OverflowError):
        raise SetupError(f"{option} {text}: write a number and a unit, such as 12h, 30d or 52w") from None


def show_new(new: "NewKey", as_json: bool) -> None:
    """Print a new key and its secret, which is shown only once."""
    from online.api.auth.key_changes import describe_key

    if as_json:
        echo_json({**describe_key(new.row).model_dump(), "key": new.secret})
        return
    typer.echo(new.secret)
    typer.echo(
        f"\nThis is the key {new.row.name!r} ({', '.join(new.row.scope_list)}). It is shown this once; send it as\n"
        "  Authorization: Bearer KEY\n"
        'Callers without a key are refused from now on. To keep this machine free of keys, set admin = "local".',
        err=True,
    )


def echo_json(content: object) -> None:
    """Print JSON."""
    import json

    typer.echo(json.dumps(content, indent=2))
