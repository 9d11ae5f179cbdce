"""The OpenAPI document: the schemas of the bodies that handlers parse themselves, and the page that shows it.

app.openapi() --once, in a thread--> bytes --and the path prefix of the request--> GET /openapi.json
"""

import asyncio
import json
from collections.abc import Iterable

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel

from online.api.middleware.browser_rules import POLICY, hash_inline, page_policy


def add_schemas(app: FastAPI, bodies: Iterable[type[BaseModel]]) -> None:
    """Add the schemas of bodies to the document that handlers parse themselves: FastAPI does not see them."""
    generate = app.openapi

    def openapi() -> dict[str, object]:
        document = generate()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in bodies:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]


class DocumentRoute:
    """GET /openapi.json, which needs no key: it must cost little. To render the document takes half a second of a core.

    It keeps no application: FastAPI's cache of what kind of function an endpoint is lives as long as the process, and with
    the application it would keep every model of one that has ended.
    """

    def __init__(self) -> None:
        self._rendering: asyncio.Future[bytes] | None = None

    async def show(self, request: Request) -> Response:
        """Return the document; behind a path prefix, with a `servers` entry."""
        if self._rendering is None:
            self._rendering = asyncio.ensure_future(asyncio.to_thread(render_document, request.app))
        body = await asyncio.shield(self._rendering)  # a request that is cancelled does not end it for others
        if prefix := request.scope.get("root_path", "").rstrip("/"):
            body = b'{"servers":%s,%s' % (json.dumps([{"url": prefix}]).encode(), body[1:])
        return Response(body, media_type="application/json")


def render_document(app: FastAPI) -> bytes:
    """Return the OpenAPI document as JSON."""
    return bytes(JSONResponse(app.openapi()).body)


async def show_docs(request: Request) -> HTMLResponse:
    """Swagger UI, with every file from this origin."""
    root_path = request.scope.get("root_path", "")
    page = get_swagger_ui_html(
        openapi_url=f"{root_path}/openapi.json",
        title="online",
        swagger_js_url=f"{root_path}/docs/swagger-ui-bundle.js",
        swagger_css_url=f"{root_path}/docs/swagger-ui.css",
        swagger_favicon_url=f"{root_path}/favicon.svg",
    )
    script = hash_inline(bytes(page.body).decode(), "script")
    page.headers[POLICY.decode()] = page_policy((), f"'self' {script}").decode()
    return page
