"""The setting of the plugin."""

from pydantic import BaseModel, Field


class BookmarkSettings(BaseModel):
    max_bookmarks: int = Field(100, ge=1, description="Most bookmarks of one user that are listed.")
