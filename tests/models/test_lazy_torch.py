"""Modules that are imported late, by several threads."""

import subprocess
import sys
from pathlib import Path

OUTER = """
import importlib._bootstrap
import threading

began = threading.Event()
began.set()
while not importlib._bootstrap._blocking_on:  # until the other thread waits for an import of this one
    pass
"""
PROGRAM = """
import sys
import threading
from online.models.lazy_torch import LazyModule

found, errors = {}, []
threading.excepthook = lambda failed: errors.append(repr(failed.exc_value))
inner = threading.Thread(target=lambda: found.update(inner=LazyModule("outer.inner").value))
inner.start()
while not hasattr(sys.modules.get("outer"), "began"):
    pass
found["child"] = LazyModule("outer.inner.child").value
inner.join()
assert not errors and found == {"inner": 1, "child": 2}, errors
"""


def test_two_threads_import_a_package_and_a_module_of_it_at_the_same_time(tmp_path: Path) -> None:
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").write_text(OUTER)
    (folder / "__init__.py").write_text("from outer.inner import child\nvalue = child.value - 1\n")
    (folder / "child.py").write_text("value = 2\n")
    paths = [str(tmp_path), str(Path(__file__).parents[2])]
    program = f"import sys\nsys.path[:0] = {paths!r}\n{PROGRAM}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
