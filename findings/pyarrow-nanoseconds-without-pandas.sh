#!/usr/bin/env bash
# pyarrow 26.0.1: to_pylist of timestamp[ns] works for most values and raises for others, by their last three digits, where pandas is missing
#
# A timestamp[ns] whose nanoseconds are whole microseconds becomes a datetime. One that is not needs pandas.Timestamp, and pyarrow raises
# ValueError "Nanosecond resolution temporal type 1 is not safely convertible to microseconds ... Install pandas". So a reader that was tested on
# a file without odd nanoseconds fails on the first row that has some, and with it the whole column. cast("timestamp[us]", safe=False) reads both.
#
# Output: 1000 ns: datetime | 1001 ns: ValueError, Install pandas | after the cast: 1000 ns and 1001 ns are the same instant
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check pyarrow==26.0.1
venv/bin/python - <<'PY'
import datetime, pyarrow as pa

whole, odd = (pa.array([nanoseconds], pa.timestamp("ns")) for nanoseconds in (1_000, 1_001))
assert isinstance(whole.to_pylist()[0], datetime.datetime)
try:
    odd.to_pylist()
    raise SystemExit("1001 ns are read")
except ValueError as error:
    assert "Install pandas" in str(error), error
both = [each.cast(pa.timestamp("us"), safe=False).to_pylist()[0] for each in (whole, odd)]
assert both[0] == both[1]
print("1000 ns: datetime | 1001 ns: ValueError, Install pandas | after the cast: 1000 ns and 1001 ns are the same instant")
PY
