"""Members of a cohort, which speak to a service as devices do."""

import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from fastapi.testclient import TestClient
from httpx import Client

from online.models.classifier import Classifier
from online.models.statistics.exact import ExactStatistics
from online_federated.secure_aggregation.client import AggregationClient
from online_federated.secure_aggregation.layout import IntegerSegment, SumLayout
from online_federated.secure_aggregation.messages import AggregationGroup, PublicKeys
from online_federated.values import flatten_sums
from tests.serving.feedback.sums.files import OPTIONS, Labelled, to_examples

COHORTS = "/v1/models/lab/cohorts"


def encode(data: bytes) -> str:
    return b64encode(data).decode()


class Member:
    """A device with its own rows. After `join`, each method is one round."""

    def __init__(
        self, client: TestClient | Client, cohort: str, rows: Sequence[Labelled], headers: dict[str, str]
    ) -> None:
        self.client, self.cohort, self.rows, self.headers = client, cohort, rows, headers
        self.secrets = AggregationClient(os.urandom)

    def join(self, **query: str) -> Any:
        keys = self.secrets.advertise()
        body = {"sealing": encode(keys.sealing), "masking": encode(keys.masking)}
        response = self.client.post(f"{COHORTS}/{self.cohort}/members", json=body, headers=self.headers, params=query)
        if response.status_code == 201:
            self.membership = response.json()
            self.number: int = self.membership["number"]
        return response

    @property
    def url(self) -> str:
        return f"{COHORTS}/{self.cohort}/members/{self.number}"

    @property
    def own_headers(self) -> dict[str, str]:
        return {**self.headers, "X-Cohort-Token": self.membership["token"]}

    def look(self) -> Any:
        response = self.client.get(self.url, headers=self.own_headers)
        assert response.status_code == 200, response.text
        return response.json()

    def put(self, name: str, body: Any) -> Any:
        return self.client.put(f"{self.url}/{name}", json=body, headers=self.own_headers)

    def share(self) -> Any:
        seen = self.look()
        described = self.client.get(f"{COHORTS}/{self.cohort}", headers=self.headers).json()
        layout = SumLayout(tuple(IntegerSegment(*each) for each in described["segments"]))
        self.classes = described["parameters"]["classes"]
        group = AggregationGroup(b64decode(self.membership["context"]), seen["threshold"], layout)
        keys = {
            int(number): PublicKeys(b64decode(each["sealing"]), b64decode(each["masking"]))
            for number, each in seen["keys"].items()
        }
        shared = self.secrets.share(group, self.number, keys)
        sealed = {number: encode(each) for number, each in shared.sealed.items()}
        return self.put("shares", {"sealed": sealed, "commitment": encode(shared.commitment)})

    def mask(self) -> Any:
        sealed = {int(number): b64decode(each) for number, each in self.look()["sealed"].items()}
        packed = self.secrets.mask(sealed, flatten_sums(self.sum_rows().tensors()))
        return self.put("values", {"packed": encode(packed)})

    def sum_rows(self) -> ExactStatistics:
        device = Classifier(OPTIONS)
        device.learn(to_examples(self.rows))
        sums = ExactStatistics(device.statistics.width)
        for label in self.classes:
            sums.add_class(label)
        sums.merge(device.statistics)
        return sums

    def unmask(self, tampered: bool = False) -> Any:
        revealed = self.secrets.unmask(self.look()["survivors"])
        seeds = {number: encode(share) for number, share in revealed.seeds.items()}
        if tampered:
            seeds[min(seeds)] = encode(bytes([*revealed.seeds[min(seeds)][:-1], revealed.seeds[min(seeds)][-1] ^ 1]))
        masking_keys = {number: encode(share) for number, share in revealed.masking_keys.items()}
        return self.put("unmasking", {"masking_keys": masking_keys, "seeds": seeds})
