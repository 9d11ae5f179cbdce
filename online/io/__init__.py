"""Files and wake-ups: record files, atomic writes, signals between processes."""
