"""Sessions of the page, and API keys."""

from pydantic import Field

from online.schemas.access.callers import PublicTeaching, Scope
from online.schemas.fields import Name, NativeRequest, Wire


class SignInRequest(NativeRequest):
    """A key, for a session of the page."""

    key: str = Field(min_length=1, max_length=256, description="An API key, or the admin key.")


class SessionAnswer(Wire):
    """The caller for whom the page speaks."""

    caller: str = Field(description="The id of the caller, such as key:alice or visitor:1f2e...; anonymous for nobody.")
    scopes: list[Scope]
    is_signed_in: bool = Field(description="Whether a session of this browser counts, which can be signed out.")
    public_teaching: PublicTeaching | None = Field(description="What visitors may teach; null where there are none.")
    may_name_user: bool = Field(description="Whether the field `user` and the header X-User count.")
    share_conversations: bool = Field(description="Whether a conversation can be shared by a link.")
    plugins: list[str] = Field(
        description="The names of the installed plugins. The page hides what a missing one would answer."
    )
    visitor_token: str | None = Field(
        None,
        description="Of a new visitor of the widget, on a page of `widget_origins`: what its header X-Visitor-Token sends from now "
        "on. Null for every other caller.",
    )


class NewKeyRequest(NativeRequest):
    """A key to create."""

    name: Name
    scopes: list[Scope] = Field(min_length=1)
    models: list[Name] | None = Field(None, description="The only models that it may use. Default: all.")
    expires_days: float | None = Field(None, gt=0, le=36_500, description="Days until it expires. Default: never.")


class RotateKeyRequest(NativeRequest):
    """The options of a rotation of a key."""

    grace_hours: float = Field(24, ge=0, le=8_760, description="Hours for which the old key is still accepted.")


class KeyInfo(Wire):
    """The public facts about a key, without its secret."""

    id: str
    prefix: str = Field(description="How the key begins; the rest of it is not stored.")
    name: str
    scopes: list[Scope]
    models: list[str] | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class CreatedKey(KeyInfo):
    """A new key, with its secret."""

    key: str = Field(description="The whole key. It is shown this once.")


class KeysAnswer(Wire):
    """The keys that are in force."""

    keys: list[KeyInfo]
