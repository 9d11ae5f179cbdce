#!/usr/bin/env bash
# httptools 0.9.0 (the parser of uvicorn): the body of a request that offers HTTP/2 by an Upgrade header is never handed over
#
# Java's HttpClient sends "Upgrade: h2c" with every request to an address without TLS, and a server that does not want HTTP/2 may answer by
# HTTP/1.1 (RFC 9110, 7.8). httptools ends the message behind the headers: on_body is not called, and a POST of JSON looks empty.
#
# Output: without the header on_body got b'{"x": 1}', with it None
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check httptools==0.9.0
venv/bin/python - <<'PY'
import httptools


class Request:
    body = None

    def on_body(self, body):
        self.body = body


def parse(extra):
    request = Request()
    parser = httptools.HttpRequestParser(request)
    try:
        parser.feed_data(b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n' + extra + b'\r\n{"x": 1}')
    except httptools.HttpParserUpgrade:
        pass
    return request.body


plain, offered = parse(b""), parse(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n")
print(f"without the header on_body got {plain}, with it {offered}")
assert plain == b'{"x": 1}' and offered is None
PY
