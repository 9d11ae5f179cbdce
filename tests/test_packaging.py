"""The distributions: what their wheels contain, and that the client runs without the rest."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def build_wheel(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT / "packaging" / "client", tmp_path_factory.mktemp("client"))


def test_the_wheel_of_the_service_has_everything_it_loads_at_run_time(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(build_wheel(ROOT, tmp_path)).namelist())
    tracked = subprocess.run(["git", "ls-files", "online"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(tracked.stdout.split()) <= names
    assert {"online/py.typed", "online/api/protos/online_pb2_grpc.py", "online/data/repertoire.jsonl"} <= names
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "online/api/static").rglob("*") if path.is_file()}
    assert page <= names


def test_the_wheel_of_the_client_contains_only_the_client(client_wheel: Path) -> None:
    modules = [name for name in zipfile.ZipFile(client_wheel).namelist() if name.endswith(".py")]
    assert all(name == "online/__init__.py" or name.startswith("online/client/") for name in modules)
    assert "online/py.typed" in zipfile.ZipFile(client_wheel).namelist()


def test_the_wheel_of_the_client_is_imported_without_any_other_package(client_wheel: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(client_wheel)!r}); from online import AsyncClient, Client"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_both_distributions_have_one_version(client_wheel: Path) -> None:
    import online

    assert client_wheel.name.startswith(f"online_client-{online.__version__}-")
