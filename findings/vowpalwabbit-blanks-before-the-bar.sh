#!/usr/bin/env bash
# vowpalwabbit 9.11.9: whether a line is learned depends on blanks before the bar, without a word about it.
# `1 | a` and `1 'id | a` are learned. `1| a` is not: a word that touches the bar is a tag, so the line has no label.
# `1 id | a` is not either: a word among blanks is an importance weight, and one that is no number counts 0.
# Output seen: "1 | a" 1.0, "1 'id | a" 1.0, "1 id| a" 1.0, "1| a" 0.0, "1 id | a" 0.0
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "vowpalwabbit==9.11.9"
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import sys
import vowpalwabbit

seen = {}
for line in ("1 | a", "1 'id | a", "1 id| a", "1| a", "1 id | a"):
    model = vowpalwabbit.Workspace("--quiet")
    for _ in range(20):
        model.learn(line)
    seen[line] = round(model.predict("| a"), 2)
print(seen)
sys.exit(list(seen.values()) != [1.0, 1.0, 1.0, 0.0, 0.0])
PYTHON
