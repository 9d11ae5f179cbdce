"""The types of parsed JSON. Its structure is known only at run time, so each reader checks the members that it uses."""

from typing import Any, TypeAlias

JSON: TypeAlias = Any  # null, a boolean, a number, a text, a JSONArray or a JSONObject
JSONArray: TypeAlias = list[JSON]
JSONObject: TypeAlias = dict[str, JSON]
