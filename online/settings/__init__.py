"""Every setting of the service, where it comes from, and how an invalid one is reported.

defaults  <  online.toml  <  ONLINE_* environment  <  flags       (the last one that is given wins)

load(config, port=9000)  ->  Settings, frozen; passed down, never imported as a value
"""

from online.schemas.fields import reveal
from online.settings.fields import LogFormat, LogLevel, Settings
from online.settings.messages import describe, mask_password, suggest
from online.settings.models import (
    SHIPPED,
    Device,
    Drift,
    GoldenQuestionSettings,
    GuardMode,
    ModelSettings,
    PageTexts,
    Placement,
)
from online.settings.sources import LoadedSettings, SettingOrigin, load, load_with_origins

__all__ = [
    "SHIPPED",
    "Device",
    "Drift",
    "GoldenQuestionSettings",
    "GuardMode",
    "LoadedSettings",
    "LogFormat",
    "LogLevel",
    "ModelSettings",
    "PageTexts",
    "Placement",
    "SettingOrigin",
    "Settings",
    "describe",
    "load",
    "load_with_origins",
    "mask_password",
    "reveal",
    "suggest",
]
