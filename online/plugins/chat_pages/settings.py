"""The settings of other chat pages."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from online.schemas.fields import Secret, check_pairs


class ChatPageSettings(BaseModel):
    """The settings of other chat pages."""

    open_webui_url: str | None = Field(
        None, pattern=r"^https?://", description="URL of an Open WebUI whose ratings are learned. Default: none."
    )
    open_webui_key: Secret | None = Field(
        None, min_length=1, description="API key of an administrator of that Open WebUI."
    )
    open_webui_every_s: float = Field(
        60.0, gt=0, description="Seconds between polls of that Open WebUI for ratings its webhook did not deliver."
    )
    langfuse_public_key: str | None = Field(
        None, min_length=1, description="Public key with which LibreChat sends ratings here, as it would to Langfuse."
    )
    langfuse_secret_key: Secret | None = Field(None, min_length=1, description="The secret key beside that public key.")

    @model_validator(mode="after")
    def _keys_are_set_with_what_they_open(self) -> Self:
        check_pairs(self, ("open_webui_url", "open_webui_key"), ("langfuse_public_key", "langfuse_secret_key"))
        return self
