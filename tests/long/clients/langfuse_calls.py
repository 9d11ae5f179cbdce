"""Send scores with Langfuse's client to the service at argv[1], as argv[2:] say: trace ids; print what it says of its keys as JSON.

This module runs in the environment of that client.
"""

import json
import sys
from typing import Any

from langfuse import Langfuse

address: dict[str, Any] = {"public_key": "pk-lf-online", "secret_key": "sk-lf-secret", "host": sys.argv[1]}
client: Any = Langfuse(**address)
answers = {"keys": client.auth_check()}
send = client.create_score if hasattr(client, "create_score") else client.score  # its version 2 has the shorter name
for place, trace in enumerate(sys.argv[2:]):
    send(name="user-feedback", value=1 - place % 2, trace_id=trace, data_type="BOOLEAN")
    send(name="sentiment", value="positive", trace_id=trace, data_type="CATEGORICAL")
client.flush()
print(json.dumps(answers))
