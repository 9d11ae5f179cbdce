"""The address at which other replicas reach this one."""

import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from online.plugins.cluster.addresses import find_replica_url
from online.settings import Settings


def find_url(**settings: object) -> str:
    return find_replica_url(Settings.model_validate(settings), 8123)


def test_the_default_is_the_address_that_the_service_listens_on() -> None:
    assert find_url(host="10.0.0.7") == "http://10.0.0.7:8123"
    assert find_url(host="fd00::7") == "http://[fd00::7]:8123"
    assert find_replica_url(Settings.model_validate({"port": 9000})) == "http://127.0.0.1:9000"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_the_default_names_the_machine_where_the_service_listens_on_all_addresses(host: str) -> None:
    assert find_url(host=host) == f"http://{socket.gethostname()}:8123"


def test_a_service_with_a_certificate_is_reached_by_https(tmp_path: Path) -> None:
    assert find_url(tls_certificate=tmp_path / "c", tls_key=tmp_path / "k").startswith("https://")


def test_the_setting_goes_before_the_default() -> None:
    assert find_url(replica_url="http://online-0.online:8000/") == "http://online-0.online:8000"


@pytest.mark.parametrize(
    "setting", [{"replica_url": "online-0:8000"}, {"replica_url": "http://a:1/?x"}, {"snapshot_url": "bucket"}]
)
def test_what_is_no_url_is_refused(setting: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        find_url(**setting)
