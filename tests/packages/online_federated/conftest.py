"""The package of secure aggregation, built as it is published, beside the scripts of members."""

from pathlib import Path

import pytest

from tests.conformance.conftest import LEARNER, add_scripts, build_package, node

__all__ = ["node"]  # a fixture
HERE = Path(__file__).parent
SOURCE = HERE.parent.parent.parent / "packages" / "online-federated" / "js"


@pytest.fixture(scope="session")
def aggregation_package(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of secure aggregation, that of the learner, and the scripts of members."""
    folder = tmp_path_factory.mktemp("aggregation")
    build_package(node, SOURCE, folder / "package")
    build_package(node, LEARNER, folder / "learner")
    return add_scripts(folder, HERE / "aggregation.js", HERE / "member.js", HERE / "member_node.js")
