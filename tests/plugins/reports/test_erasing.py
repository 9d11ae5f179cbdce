"""Reports on a model's log are deleted with a user whom the log had, and stay where it had not."""

from pathlib import Path

from tests.serving.erasure.scene import USER, ErasureScene, open_workspace, teach, vector


def write_report(scene: ErasureScene) -> Path:
    """Write a page in both languages; return the English one."""
    folder = scene.workspace.state / "reports" / "m"
    folder.mkdir(parents=True)
    for name in ("9.html", "9.de.html"):
        (folder / name).write_text("a report")
    return folder / "9.html"


def test_reports_on_a_log_that_had_the_user_are_deleted_and_counted(tmp_path: Path) -> None:
    scene = ErasureScene(open_workspace(tmp_path, "classifier", {"input": "vector", "size": 3}))
    teach(scene, 9, vector, lambda n: f"c{n % 2}")
    page = write_report(scene)
    scene.learn()
    assert scene.erase()["models"]["m"]["reports_removed"] == 1
    assert [*page.parent.iterdir()] == []


def test_reports_on_a_log_that_never_had_the_user_stay(tmp_path: Path) -> None:
    scene = ErasureScene(open_workspace(tmp_path, "classifier", {"input": "vector", "size": 3}))
    for n in range(9):
        scene.give("bert", f"bert-{n}", vector(n), f"c{n % 2}")
    page = write_report(scene)
    scene.learn()
    assert USER not in str(scene.erase()["models"])
    assert page.read_text() == "a report" and len([*page.parent.iterdir()]) == 2
