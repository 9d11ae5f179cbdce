"""The distributions: what their wheels contain, and that the client runs without the rest."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
IMAGE = ROOT / "Dockerfile"


def build_wheel(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT / "packaging" / "client", tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def federated_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT / "packages" / "online-federated", tmp_path_factory.mktemp("federated"))


def test_the_wheel_of_the_service_has_everything_it_loads_at_run_time(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(build_wheel(ROOT, tmp_path)).namelist())
    tracked = subprocess.run(["git", "ls-files", "online"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(tracked.stdout.split()) <= names
    assert {"online/py.typed", "online/plugins/grpc/protos/online_pb2_grpc.py", "online/data/repertoire.jsonl"} <= names
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "online/api/static").rglob("*") if path.is_file()}
    assert page <= names


def test_the_wheel_of_the_client_contains_only_the_client(client_wheel: Path) -> None:
    modules = [name for name in zipfile.ZipFile(client_wheel).namelist() if name.endswith(".py")]
    assert all(name == "online/__init__.py" or name.startswith("online/client/") for name in modules)
    assert "online/py.typed" in zipfile.ZipFile(client_wheel).namelist()


def test_the_wheel_of_the_client_is_imported_without_any_other_package(client_wheel: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(client_wheel)!r}); from online import AsyncClient, Client"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_the_wheel_of_a_package_contains_the_package_and_names_its_plugin(federated_wheel: Path) -> None:
    wheel, folder = zipfile.ZipFile(federated_wheel), "packages/online-federated"
    command = ["git", "ls-files", "online_federated"]
    tracked = subprocess.run(command, cwd=ROOT / folder, check=True, capture_output=True, text=True)
    files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert files == set(tracked.stdout.split()) and "online_federated/py.typed" in files
    points = wheel.read(next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))).decode()
    assert points.split() == ["[online.plugins]", "federated", "=", "online_federated.plugin:PLUGIN"]


def locked(name: str) -> dict[str, str]:
    """The lines of each locked requirement, by the name of its package."""
    blocks = re.split(r"^(?=[a-z0-9])", (ROOT / "requirements" / name).read_text(), flags=re.MULTILINE)[1:]
    return {block.partition("==")[0]: block for block in blocks}


@pytest.mark.parametrize("name", ["build.txt", "service.txt", "torch.txt", "dev.txt", "adapters.txt", "charts.txt"])
def test_every_locked_package_has_one_version_and_hashes(name: str) -> None:
    for package, block in locked(name).items():
        assert re.match(r"[a-z0-9-]+==[\w.]+ ", block) and "--hash=sha256:" in block, package


def test_every_dependency_is_locked_with_a_version_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    others = {path.parent.name: tomllib.loads(path.read_text()) for path in ROOT.glob("packages/*/pyproject.toml")}
    needed = {
        name: [each for each in other["project"]["dependencies"] if each != "online"] for name, other in others.items()
    }
    of_image = [each for name, of_one in needed.items() if f"packages/{name} " in IMAGE.read_text() for each in of_one]
    service = [*project["dependencies"], *extras["postgres"], *extras["traces"], *of_image]
    assert of_image
    for files, wanted in (
        (("service.txt", "torch.txt"), service),
        (("dev.txt", "torch.txt"), [*service, *extras["dev"]]),
        (("dev.txt", "torch.txt", "adapters.txt"), [each for of_one in needed.values() for each in of_one]),
    ):
        found = {package: block for file in files for package, block in locked(file).items()}
        for requirement in map(Requirement, wanted):
            version = found[canonicalize_name(requirement.name)].partition("==")[2].split()[0]
            assert requirement.specifier.contains(version), f"{requirement} is locked as {version}: run make lock"


def test_the_image_installs_nothing_but_what_is_locked() -> None:
    text = IMAGE.read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install (.*?)(?:;|$)", text, re.MULTILINE)
    own = [each for each in installs if "--require-hashes" not in each and "TORCH_INDEX" not in each]
    assert len(installs) == 5 and own == ["--no-deps --no-index /wheels/*.whl"]


def test_all_distributions_have_one_version(client_wheel: Path, federated_wheel: Path) -> None:
    import online

    assert client_wheel.name.startswith(f"online_client-{online.__version__}-")
    assert federated_wheel.name.startswith(f"online_federated-{online.__version__}-")
