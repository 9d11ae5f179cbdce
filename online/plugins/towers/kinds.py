"""The kinds of this plugin."""

from online.models.kinds import KindSpec, classifier

KINDS: tuple[KindSpec, ...] = (
    classifier(
        "tower",
        "online.plugins.towers.tower:Tower",
        options="online.plugins.towers.options",
        options_can_load_code=True,
        adapts=True,
        has_parts=True,
        graph="online.plugins.towers.graph:build",
    ),
)
