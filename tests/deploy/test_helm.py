"""The Helm chart, linted and rendered by Helm itself, and checked against the schemas of Kubernetes.

Both come from PyPI into .venv/charts (`make .venv/.charts`); no cluster is needed.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource
from typer.main import get_command

from online.cli.app import app
from online.settings import Settings
from online.telemetry import Metrics
from tests.support import skip_or_fail

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "online"
CHARTS = Path(sys.prefix) / "charts"  # of requirements/charts.txt
VERSIONS = ("1.27.0", "1.37.0")  # the oldest Kubernetes that the chart takes, and the newest one whose schema is here
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SECRET = {
    "store": "postgresql+psycopg://online:word@db/online",
    "stream": "redis://:word@redis:6379/0",
    "secret": "0123456789abcdef0123456789abcdef",
}
CASES: dict[str, dict[str, Any]] = {
    "a secret of the chart": {"secret": SECRET},
    "a secret of one's own": {"secret": {"existingSecret": "mine"}, "publicUrl": "https://chat.example.com"},
    "everything": {
        "secret": {**SECRET, "adminKey": "word-word-word", "snapshotUrl": "s3://bucket/online"},
        "publicUrl": "https://chat.example.com",
        "trustedProxies": ["10.42.0.0/16", "fd00::/8"],
        "autoscaling": {"enabled": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "x"}, "keySecret": {"name": "metrics"}},
        "networkPolicy": {
            "from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
            "postgres": {"port": 6432, "to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}]},
            "https": {"enabled": True, "to": []},
            "extraEgress": [{"ports": [{"protocol": "TCP", "port": 9000}]}],
        },
        "extraEnv": [{"name": "ONLINE_RETENTION_DAYS", "value": "90"}],
        "imagePullSecrets": [{"name": "registry"}],
        "podLabels": {"team": "chat"},
        "podAnnotations": {"note": "x"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "service": {"annotations": {"note": "x"}},
        "serviceAccount": {"annotations": {"note": "x"}},
    },
    "as little as possible": {
        "secret": {"existingSecret": "mine"},
        "migrations": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "topologySpread": {"enabled": False},
        "serviceAccount": {"create": False},
    },
    "autoscaling by the processor alone": {
        "secret": {"existingSecret": "mine"},
        "autoscaling": {"enabled": True, "queueDepth": {"enabled": False}},
    },
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no secret": ({}, "set secret.store, the URL of Postgres, or secret.existingSecret"),
    "no random text": ({"secret": {**SECRET, "secret": ""}}, "set secret.secret"),
    "a short random text": ({"secret": {**SECRET, "secret": "short"}}, "secret"),
    "another database": ({"secret": {**SECRET, "store": "sqlite:///x"}}, "store"),
    "no trusted proxy": ({"secret": SECRET, "trustedProxies": []}, "trustedProxies"),
    "a proxy by its name": ({"secret": SECRET, "trustedProxies": ["proxy.example"]}, "trustedProxies"),
    "a misspelt value": ({"secret": SECRET, "replicas": 3}, "replicas"),
    "no replica": ({"secret": SECRET, "replicaCount": 0}, "replicaCount"),
    "autoscaling by nothing": (
        {
            "secret": SECRET,
            "autoscaling": {"enabled": True, "queueDepth": {"enabled": False}, "cpu": {"enabled": False}},
        },
        "autoscaling",
    ),
}


class Rendering(NamedTuple):
    """What Helm made of one set of values. manifests: without those of operators that Kubernetes does not know."""

    error: str | None
    messages: list[dict[str, Any]]
    manifests: list[dict[str, Any]]
    notes: str

    def find(self, kind: str, suffix: str = "") -> dict[str, Any]:
        """Return the only manifest of a kind whose name ends so."""
        (found,) = [m for m in self.manifests if m["kind"] == kind and m["metadata"]["name"] == f"chat-online{suffix}"]
        return found

    def kinds(self) -> set[str]:
        return {manifest["kind"] for manifest in self.manifests}


@cache
def render_all() -> dict[str, Rendering]:
    """Return the renderings of all cases; Helm starts once."""
    if not (CHARTS / "helm_python").exists():
        skip_or_fail("Helm is not installed; run: make .venv/.charts")
    cases = CASES | {name: values for name, (values, _) in WRONG.items()}
    request = {"chart": str(CHART), "kube_version": VERSIONS[0], "cases": [*cases.values()]}
    path = os.pathsep.join([str(CHARTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("render_chart.py"))],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, map(read_rendering, json.loads(done.stdout)), strict=True))


def read_rendering(answer: Mapping[str, Any]) -> Rendering:
    files: dict[str, str] = answer["files"]
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    manifests = [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest]
    notes = next((text for name, text in files.items() if name.endswith("NOTES.txt")), "")
    return Rendering(answer["error"], answer["messages"], manifests, notes)


def pod_of(rendering: Rendering) -> dict[str, Any]:
    spec: dict[str, Any] = rendering.find("Deployment")["spec"]["template"]["spec"]
    return spec


# Helm


@pytest.mark.parametrize("case", CASES)
def test_helm_lints_and_renders_the_chart(case: str) -> None:
    rendering = render_all()[case]
    assert rendering.error is None
    assert [each for each in rendering.messages if "icon is recommended" not in str(each)] == []
    assert {"Deployment", "Service", "ConfigMap"} <= rendering.kinds()
    assert "kubectl --namespace prod rollout status deployment/chat-online" in rendering.notes


@pytest.mark.parametrize("case", WRONG)
def test_values_that_cannot_work_are_refused(case: str) -> None:
    error = render_all()[case].error
    assert error is not None and WRONG[case][1] in error, error


@cache
def schema_of(version: str, kind: str, api: str) -> "jsonschema.Draft202012Validator":
    """Return the schema of a kind."""
    folder = CHARTS / "kubernetes_validate" / "kubernetes-json-schema" / f"v{version}-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api)
    contents = [
        json.loads((folder / name).read_text()) for name in (f"{kind.lower()}-{group}.json", "_definitions.json")
    ]
    registry = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in contents)
    return jsonschema.Draft202012Validator(contents[0], registry=registry)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_manifest_is_valid_for_kubernetes(case: str, version: str) -> None:
    for manifest in render_all()[case].manifests:
        if manifest["kind"] != "ServiceMonitor":  # of the Prometheus operator, which Kubernetes does not know
            errors = schema_of(version, manifest["kind"], manifest["apiVersion"]).iter_errors(manifest)
            assert [f"{manifest['kind']} {error.json_path}: {error.message}" for error in errors] == []


def test_the_schemas_find_a_misspelt_field() -> None:
    manifest = json.loads(json.dumps(render_all()["a secret of the chart"].find("Deployment")))
    manifest["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    assert [*schema_of(VERSIONS[0], "Deployment", "apps/v1").iter_errors(manifest)]


# what is rendered


@pytest.mark.parametrize("case", CASES)
def test_no_container_runs_as_root_or_writes_outside_its_volumes(case: str) -> None:
    rendering = render_all()[case]
    pods = [m["spec"]["template"]["spec"] for m in rendering.manifests if m["kind"] in ("Deployment", "Job")]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False  # ONLINE_PORT would be an address
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            assert mounts == {volume["name"] for volume in pod["volumes"]} and "temporary" in mounts


def test_a_new_pod_is_ready_before_an_old_one_ends_and_its_state_is_disposable() -> None:
    rendering = render_all()["a secret of the chart"]
    spec = rendering.find("Deployment")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1} and spec["replicas"] == 2
    pod = pod_of(rendering)
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe")} == {"/healthz"}
    assert container["lifecycle"]["preStop"] and pod["terminationGracePeriodSeconds"] >= 30
    assert {v["name"] for v in pod["volumes"] if "emptyDir" in v} == {"state", "temporary"}
    assert [each["topologyKey"] for each in pod["topologySpreadConstraints"]] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]


def test_every_replica_gets_its_own_url_and_the_rest_from_one_secret() -> None:
    for case in CASES:
        (container,) = pod_of(render_all()[case])["containers"]
        names = [variable["name"] for variable in container["env"]]
        values = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert values["ONLINE_REPLICA_URL"] == "http://$(POD_IP):8000"
        assert names.index("POD_IP") < names.index("ONLINE_REPLICA_URL")  # it must stand before
        proxies = CASES[case].get("trustedProxies", VALUES["trustedProxies"])
        assert json.loads(str(values["ONLINE_TRUSTED_PROXIES"])) == proxies and proxies
        secret = container["envFrom"][0]["secretRef"]["name"]
        assert secret == CASES[case]["secret"].get("existingSecret", "chat-online")


def test_the_secret_and_the_variables_name_settings() -> None:
    rendering = render_all()["everything"]
    (container,) = pod_of(rendering)["containers"]
    named = {*rendering.find("Secret")["stringData"], *(variable["name"] for variable in container["env"])}
    settings = {name.removeprefix("ONLINE_").lower() for name in named if name.startswith("ONLINE_")}
    assert settings - {"config"} <= Settings.model_fields.keys()
    assert {"store", "stream", "secret", "admin_key", "snapshot_url", "replica_url"} <= settings


def test_the_configuration_of_the_values_is_valid_and_its_pods_change_with_it() -> None:
    rendering = render_all()["a secret of the chart"]
    given = tomllib.loads(rendering.find("ConfigMap")["data"]["online.toml"])
    assert Settings.model_validate(given).models[0].name == "chat"
    annotations = rendering.find("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert {"checksum/config", "checksum/secret"} <= annotations.keys()


def test_the_services_and_the_budget_select_the_replicas_and_not_the_job() -> None:
    rendering = render_all()["a secret of the chart"]
    labels = rendering.find("Deployment")["spec"]["template"]["metadata"]["labels"]
    job = rendering.find("Job", "-migrate")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        rendering.find("Service")["spec"]["selector"],
        rendering.find("Service", "-replicas")["spec"]["selector"],
        rendering.find("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        rendering.find("Deployment")["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() and not selector.items() <= job.items() for selector in selectors)
    policy = rendering.find("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert policy.items() <= labels.items() and policy.items() <= job.items()
    headless = rendering.find("Service", "-replicas")["spec"]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True


def test_the_schema_is_migrated_before_an_upgrade_by_a_command_that_exists() -> None:
    for case, hooks in (("a secret of the chart", "pre-upgrade"), ("a secret of one's own", "pre-install,pre-upgrade")):
        job = render_all()[case].find("Job", "-migrate")
        assert job["metadata"]["annotations"]["helm.sh/hook"] == hooks
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container["env"][0]["valueFrom"]["secretKeyRef"]["key"] == "ONLINE_STORE"
        assert container["args"] == ["migrate"] and "migrate" in vars(get_command(app))["commands"]


def test_autoscaling_goes_by_a_metric_of_the_queue_that_exists_and_by_the_processor() -> None:
    rendering = render_all()["everything"]
    pods, cpu = rendering.find("HorizontalPodAutoscaler")["spec"]["metrics"]
    name = pods["pods"]["metric"]["name"]
    assert f"# TYPE {name} gauge" in Metrics().text([], {}).decode()
    assert cpu["resource"]["name"] == "cpu" and "replicas" not in rendering.find("Deployment")["spec"]
    (only,) = render_all()["autoscaling by the processor alone"].find("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert only == cpu and name in (CHART / "README.md").read_text()


def test_the_network_policy_lets_in_callers_and_out_to_what_replicas_need() -> None:
    policy = render_all()["everything"].find("NetworkPolicy")["spec"]
    assert policy["ingress"][1]["from"] == CASES["everything"]["networkPolicy"]["from"]
    ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 8000, 6432, 6379, 443, 9000] and policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"][2]["to"] == [{"ipBlock": {"cidr": "192.0.2.7/32"}}]


def test_prometheus_scrapes_the_replicas_as_the_job_that_the_rules_name() -> None:
    monitor = render_all()["everything"].find("ServiceMonitor")
    headless = render_all()["everything"].find("Service", "-replicas")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= headless["metadata"]["labels"].items()
    assert headless["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "online"
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["name"] == "metrics"


def test_every_value_is_in_the_schema_and_the_readme_names_only_values_that_exist() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def missing(values: Mapping[str, Any], described: Mapping[str, Any], place: str = "") -> list[str]:
        found = []
        for name, value in values.items():
            if name not in described.get("properties", {}):
                found.append(place + name)
            elif isinstance(value, dict) and described["properties"][name].get("properties"):
                found += missing(value, described["properties"][name], f"{place}{name}.")
        return found

    assert missing(VALUES, schema) == []
    readme = (CHART / "README.md").read_text()
    named = re.findall(r"(?:--set ['\"]?|`)([a-z]\w+(?:\.\w+)*)(?:=|`)", readme)
    paths = [name.split(".") for name in named if name.split(".")[0] in VALUES]
    assert len(paths) >= 6
    for path in paths:
        value: Any = VALUES
        for part in path:
            assert part in value, path
            value = value[part]


def test_the_version_of_the_chart_is_that_of_the_service() -> None:
    from online import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
