"""Helm itself, in a process of its own, because it brings the runtime of Go: lints and renders a chart with several values.

{"chart": path, "cases": [values, ...]} on stdin --> [{"error": ..., "messages": [...], "files": {name: text}}, ...]
"""

import json
import sys
from collections.abc import Mapping

import helm_python as helm

RELEASE, NAMESPACE = "chat", "prod"


def render(chart: "helm.Chart", path: str, values: Mapping[str, object], kube_version: str) -> dict[str, object]:
    """Return the findings of the linter and the rendered files, or the error of Helm."""
    try:
        chart.validate_schema(values)
        files = chart.render(values, name=RELEASE, namespace=NAMESPACE)
        linted = helm.lint(path, values, strict=True, kube_version=kube_version)
    except helm.HelmError as error:
        return {"error": str(error), "messages": [], "files": {}}
    return {"error": None, "messages": [*linted["messages"], *linted["errors"]], "files": files}


def main() -> None:
    """Answer one request."""
    given = json.load(sys.stdin)
    with helm.Chart.load(given["chart"]) as chart:
        json.dump(
            [render(chart, given["chart"], values, given["kube_version"]) for values in given["cases"]], sys.stdout
        )


if __name__ == "__main__":
    main()
