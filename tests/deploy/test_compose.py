"""`deploy/compose.yaml`: every part is limited, restarted and checked, and the files that it mounts work with real programs.

No Docker is needed: the replicas are those of a local cluster, behind the Caddy and the Prometheus of this machine.
"""

import json
import re
import shutil
import ssl
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from online.settings import Settings, load
from online.telemetry import Metrics
from tests.cluster.local_cluster import LocalCluster, find_free_port
from tests.conftest import create_database
from tests.deploy.compose import DEPLOY, VARIABLE, read_compose, read_example
from tests.support import skip_or_fail, until

SECRETS = ("ONLINE_SECRET", "ONLINE_ADMIN_KEY", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "GRAFANA_PASSWORD")
GIVEN = read_example() | {name: f"word{number}" * 8 for number, name in enumerate(SECRETS)}
COMPOSE = read_compose(GIVEN)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
REPLICAS = [name for name in SERVICES if name.startswith("online-")]
RULES = DEPLOY / "prometheus" / "online.rules.yml"
SCRAPING = DEPLOY / "prometheus" / "prometheus.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "online.json").read_text())
OTHER_METRICS = {"up"}  # that Prometheus itself has


# compose.yaml


def test_the_example_of_the_environment_names_every_variable_and_no_secret_has_a_value() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    used = {name for line in text.splitlines() if not line.startswith("#") for name in re.findall(r"\$\{(\w+)", line)}
    assert used - {"ONLINE_IMAGE"} == set(read_example())
    assert {name: read_example()[name] for name in SECRETS} == dict.fromkeys(SECRETS, "")
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert "deploy/.env" in ignored


@pytest.mark.parametrize("missing", SECRETS)
def test_nothing_starts_without_a_secret(missing: str) -> None:
    with pytest.raises(ValueError, match=rf"{missing}: set it in \.env"):
        read_compose({**GIVEN, missing: ""})


def test_a_default_in_the_file_is_the_value_of_the_example() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    defaults = {(name, value) for name, kind, value in VARIABLE.findall(text) if kind == ":-" and "$" not in value}
    example = read_example()
    assert [(name, value) for name, value in defaults if name != "ONLINE_IMAGE" and example[name] != value] == []


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_checked_restarted_limited_and_changes_only_its_volumes(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"] and service["restart"] == "unless-stopped" and service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"] and service["logging"]["options"]["max-size"]
    assert {"cpus", "memory", "pids"} <= service["deploy"]["resources"]["limits"].keys()
    assert ":latest" not in service["image"] and (":" in service["image"] or "build" in service)


def test_only_the_proxy_is_published_beyond_the_machine() -> None:
    open_ports = [
        (name, port)
        for name, service in SERVICES.items()
        for port in service.get("ports", [])
        if not port.startswith("127.0.0.1:")
    ]
    assert {name for name, _ in open_ports} == {"caddy"}
    assert COMPOSE["networks"]["data"]["internal"] is True
    assert all(SERVICES[name]["networks"] == ["data"] for name in ("postgres", "redis"))


def test_every_file_that_is_mounted_exists_and_every_volume_is_declared() -> None:
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    files = [mount for mount in mounts if mount.startswith(".")]
    assert len(files) >= 6 and [file for file in files if not (DEPLOY / file).exists()] == []
    assert {mount for mount in mounts if not mount.startswith(".")} == set(COMPOSE["volumes"])


def environment_of(replica: str) -> dict[str, str]:
    found: dict[str, str] = SERVICES[replica]["environment"]
    return found


def test_the_settings_of_a_replica_exist_and_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name.removeprefix("ONLINE_").lower() for name in environment_of("online-1") if name.startswith("ONLINE_")}
    assert names - {"config"} <= Settings.model_fields.keys()
    for name, value in environment_of("online-1").items():
        if name.removeprefix("ONLINE_").lower() in Settings.model_fields:
            monkeypatch.setenv(name, value or "")  # Compose gives an empty value for one that is not set
    settings = load(DEPLOY / "compose" / "online.toml")
    assert (
        settings.public_url == "https://localhost"
        and settings.stream == f"redis://:{GIVEN['REDIS_PASSWORD']}@redis:6379/0"
    )
    assert settings.store == f"postgresql+psycopg://online:{GIVEN['POSTGRES_PASSWORD']}@postgres/online"


def test_the_replicas_share_everything_but_their_url_and_their_state() -> None:
    assert len(REPLICAS) == 2
    urls = {name: environment_of(name)["ONLINE_REPLICA_URL"] for name in REPLICAS}
    assert urls == {name: f"http://{name}:8000" for name in REPLICAS}
    one, other = ({**environment_of(name), "ONLINE_REPLICA_URL": ""} for name in REPLICAS)
    assert one == other and one["ONLINE_SECRET"]
    states = [mount for name in REPLICAS for mount in SERVICES[name]["volumes"] if mount.endswith(":/state")]
    assert len(set(states)) == 2


def test_the_replicas_trust_the_network_of_the_proxy_alone() -> None:
    subnet = COMPOSE["networks"]["edge"]["ipam"]["config"][0]["subnet"]
    for name in REPLICAS:
        assert json.loads(environment_of(name)["ONLINE_TRUSTED_PROXIES"]) == [subnet]
    members = {name for name, service in SERVICES.items() if "edge" in service["networks"]}
    assert members == {"caddy", *REPLICAS} and SERVICES["caddy"]["networks"] == ["edge"]


def test_the_proxy_and_prometheus_know_every_replica() -> None:
    places = [f"{name}:8000" for name in REPLICAS]
    caddyfile = (DEPLOY / "compose" / "Caddyfile").read_text()
    assert f"reverse_proxy {' '.join(places)} {{" in caddyfile
    (job,) = yaml.safe_load(SCRAPING.read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": places}] and job["job_name"] == "online"
    assert job["authorization"]["credentials_file"] in SERVICES["prometheus"]["entrypoint"][-1]


def test_both_caddyfiles_remove_the_same_headers_and_limit_the_same() -> None:
    def rules(path: Path) -> list[str]:
        kept = ("header_up", "max_size", "max_header_size", "read_", "flush_interval", "respond", "@large")
        return [line.strip() for line in path.read_text().splitlines() if line.strip().startswith(kept)]

    assert rules(DEPLOY / "compose" / "Caddyfile") == rules(DEPLOY / "caddy" / "Caddyfile")


# Prometheus and Grafana


def list_expressions() -> Iterator[tuple[str, str]]:
    """(where, PromQL) of every rule, of every panel, and of the variables of the dashboard."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def registered_metrics() -> set[str]:
    """The names of all series that a process of this version exports."""
    text = Metrics().text([(0, "chat", 1)], {"chat": 1}).decode()
    families = re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE)
    parts = ("_bucket", "_sum", "_count")
    return {name for name, _ in families} | {n + part for n, kind in families if kind == "histogram" for part in parts}


def test_every_metric_of_a_rule_or_a_panel_exists() -> None:
    known = registered_metrics()
    named = [
        (where, name) for where, expression in list_expressions() for name in re.findall(r"online_\w+", expression)
    ]
    assert len(named) >= 30 and [(where, name) for where, name in named if name not in known] == []


def test_the_dashboard_shows_what_matters_and_its_panels_do_not_overlap() -> None:
    shown = {name for panel in DASHBOARD["panels"] for name in re.findall(r"online_\w+", json.dumps(panel["targets"]))}
    wanted = "predictions_total prediction_seconds_bucket freshness_seconds_bucket waiting_instances lag_events"
    wanted += " live_version learner_up refused_requests_total standstill_seconds"
    assert {f"online_{name}" for name in wanted.split()} <= shown
    assert any("up{" in target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    cells = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + row)
        for panel in DASHBOARD["panels"]
        for column in range(panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(column for column, _ in cells) < 24
    assert all(panel["description"].endswith(".") for panel in DASHBOARD["panels"])


def test_grafana_finds_the_dashboard_and_its_source() -> None:
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    (provider,) = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yml").read_text())["providers"]
    assert mounts["./grafana/online.json"] == f"{provider['options']['path']}/online.json"
    (source,) = yaml.safe_load((DEPLOY / "grafana" / "datasources.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert (
        DASHBOARD["templating"]["list"][0] | {"type": "datasource", "query": "prometheus"}
        == (DASHBOARD["templating"]["list"][0])
    )


def test_each_alarm_has_a_section_in_the_runbook() -> None:
    runbook = (DEPLOY.parent / "docs" / "how-to" / "operate-cluster.md").read_text()
    headings = "\n".join(line for line in runbook.splitlines() if line.startswith("### "))
    alarms = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alarms) >= 10 and [alarm for alarm in alarms if f"`{alarm}`" not in headings] == []


def test_prometheus_accepts_the_rules() -> None:
    if shutil.which("promtool") is None:
        skip_or_fail("promtool is not installed")
    checked = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


# with real programs


@pytest.fixture(scope="module")
def cluster(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two replicas with the key of the administrator, which trust whoever connects from this machine."""
    for store in create_database():
        folder = tmp_path_factory.mktemp("compose")
        running = LocalCluster(
            folder,
            store,
            redis_url,
            open=False,
            admin_key=GIVEN["ONLINE_ADMIN_KEY"],
            public_url="https://localhost",
            trusted_proxies='["10.213.0.0/16", "127.0.0.1"]',
        )
        with running:
            yield running


def replace_once(text: str, *pairs: tuple[str, str]) -> str:
    for shipped, here in pairs:
        assert text.count(shipped) == 1, shipped
        text = text.replace(shipped, here)
    return text


@pytest.fixture(scope="module")
def proxied(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of the Caddy of compose.yaml, in front of the replicas, with a certificate of Caddy's own authority."""
    if shutil.which("caddy") is None:
        skip_or_fail("caddy is not installed")
    folder, ports = tmp_path_factory.mktemp("caddy"), (find_free_port(), find_free_port())
    places = " ".join(replica.url.removeprefix("http://") for replica in cluster.replicas)
    here = replace_once(
        (DEPLOY / "compose" / "Caddyfile").read_text(),
        ("grace_period 10s", f"grace_period 1s\n\tadmin off\n\thttp_port {ports[0]}\n\thttps_port {ports[1]}"),
        ("online-1:8000 online-2:8000", places),
    )
    (folder / "Caddyfile").write_text(here)
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": "/usr/bin:/bin", **home})
    authority = folder / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    until(authority.exists, what=f"the authority of Caddy ({folder / 'log'})")
    tls = ssl.create_default_context(cafile=str(authority))
    with httpx.Client(base_url=f"https://localhost:{ports[1]}", verify=tls, trust_env=False, timeout=30) as client:

        def answers() -> bool:
            try:
                return client.get("/readyz").status_code == 200
            except httpx.TransportError:
                return False

        until(answers, what=f"the start of Caddy ({folder / 'log'})")
        yield client
    process.terminate()
    process.wait(30)


KEY = {"Authorization": f"Bearer {GIVEN['ONLINE_ADMIN_KEY']}"}
PREDICT = {"instances": [[1, 2, 3, 4]]}


def test_both_replicas_answer_through_the_proxy_and_believe_its_headers(
    cluster: LocalCluster, proxied: httpx.Client
) -> None:
    assert proxied.post("/v1/models/vec:predict", json=PREDICT).status_code == 401
    for _ in range(20):
        assert proxied.post("/v1/models/vec:predict", json=PREDICT, headers=KEY).status_code == 200
    assert not [replica for replica in cluster.replicas if "forwarding headers are ignored" in replica.output]


def test_dashboard_queries_and_rules_are_answered_from_the_metrics_of_both_replicas(
    cluster: LocalCluster, proxied: httpx.Client, tmp_path: Path
) -> None:
    if shutil.which("prometheus") is None:
        skip_or_fail("prometheus is not installed")
    (tmp_path / "key").write_text(GIVEN["ONLINE_ADMIN_KEY"])
    (tmp_path / "online.rules.yml").write_text(RULES.read_text())
    places = ", ".join(replica.url.removeprefix("http://") for replica in cluster.replicas)
    here = replace_once(
        SCRAPING.read_text(),
        ("online-1:8000, online-2:8000", places),
        ("/tmp/metrics_key", str(tmp_path / "key")),
        ("scrape_interval: 15s", "scrape_interval: 1s"),
    )
    (tmp_path / "prometheus.yml").write_text(here)
    port = find_free_port()
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command += [f"--web.listen-address=127.0.0.1:{port}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    api = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False, timeout=10)

    def ask(expression: str) -> list[dict[str, Any]]:
        assert process.poll() is None, (tmp_path / "log").read_text()[-1000:]
        try:
            answer = api.get("/query", params={"query": expression})
        except httpx.TransportError:
            return []
        if answer.status_code == 503:  # it is starting
            return []
        assert answer.status_code == 200, f"{expression}: {answer.text}"
        results: list[dict[str, Any]] = answer.json()["data"]["result"]
        return results

    try:
        until(lambda: len(ask('up{job="online"} == 1')) == 2, what="a scrape of both replicas")
        for replica in cluster.replicas:
            with httpx.Client(base_url=replica.url, headers=KEY, trust_env=False) as client:
                assert client.post("/v1/models/vec:predict", json=PREDICT).status_code == 200
                feedback = {"feedback": [{"input": [1, 2, 3, 4], "label": "a"}]}
                assert client.post("/v1/models/vec:feedback", json=feedback).status_code == 202
                assert client.post("/v1/models/vec:predict", json={"instances": "no"}).status_code == 400
        known = [(where, given) for where, given in list_expressions() if "label_values" not in given]
        asked = {given: given.replace("$model", ".*").replace("$__rate_interval", "1m") for _, given in known}
        panels = {target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]}
        empty = set(panels)

        def all_have_data() -> bool:
            empty.difference_update([given for given in empty if ask(asked[given])])
            return not empty

        try:
            until(all_have_data, 20)
        finally:
            assert empty == set()
        for alert, given in known:
            if given not in panels:
                assert ask(asked[given]) == [], alert  # all is well
    finally:
        api.close()
        process.terminate()
        process.wait(30)


def test_people_are_answered_while_a_replica_is_dead(cluster: LocalCluster, proxied: httpx.Client) -> None:
    """A POST that is on its way when the replica dies is not repeated: nobody knows whether it was carried out."""
    cluster.replicas[0].kill()
    for _ in range(20):
        assert proxied.get("/healthz").status_code == 200
    for _ in range(20):
        assert proxied.post("/v1/models/vec:predict", json=PREDICT, headers=KEY).status_code == 200


def test_the_settings_of_the_example_file_are_those_of_the_default_models() -> None:
    models = tomllib.loads((DEPLOY / "compose" / "online.toml").read_text())["models"]
    assert [(model["name"], model["kind"]) for model in models] == [
        (model.name, model.kind) for model in Settings().models
    ]
