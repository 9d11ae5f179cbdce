"""Shares with other replicas the events of a feed that follow from nothing that they see: what a person has decided here.

    feed.send_everywhere --message--> the follower of each other replica --> the subscribers there

An event that gets lost, in an outage of the store, is one that a page shows when it is loaded again.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from online.schemas.json_values import JSONObject
from online.serving.event_feed import FeedEvent
from online.serving.model_runtime import ModelRuntime
from online.serving.replica_follower import ReplicaFollower
from online.store import Store
from online.store.replica_messages import send_message

KIND = "feed"


class FeedSharing:
    """Sends the events of the models of one replica to the others, and those of the others to the subscribers here."""

    def __init__(
        self, store: Store, replica: str, models: Mapping[str, ModelRuntime], loop: asyncio.AbstractEventLoop
    ) -> None:
        """loop: in which the subscribers wait."""
        self.store, self.replica, self.models, self.loop = store, replica, models, loop

    def start(self, follower: ReplicaFollower) -> None:
        """Share from now on, and receive what a follower hears."""
        follower.handlers[KIND] = self._receive
        for name, model in self.models.items():
            model.feed.share = partial(self._share, name)

    def _share(self, model: str, event: FeedEvent) -> None:
        message = {"model": model, "replica": self.replica, **event._asdict()}
        self.store.submit(partial(send_message, kind=KIND, content=message), durable=False)

    def _receive(self, content: JSONObject) -> None:
        model = self.models.get(content["model"])
        if model is not None and content["replica"] != self.replica:
            event = FeedEvent(content["name"], content["data"], content["owner"], content["scope"])
            self.loop.call_soon_threadsafe(model.feed.send, event)
