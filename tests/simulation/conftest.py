"""The simulator, simloom, needs Python 3.12: before that, no test of this folder is collected."""

import sys

collect_ignore_glob = ["test_*.py"] if sys.version_info < (3, 12) else []
