"""The routes: the page, its JSON API and `/metrics`. `docs/web.md` lists them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from muntin import __version__
from muntin.model import MuntinError, SqlError, UsageError
from muntin.page import STATIC
from muntin.spark.run import client
from muntin.web import metrics, rows
from muntin.web.events import StatusEvents
from muntin.web.guard import Access, Guard
from muntin.web.live import LiveJob

Handler = Callable[[Request], Awaitable[Response]]


def make_app(job: LiveJob, access: Access) -> Starlette:
    """The application for one job."""
    api = Api(job, access)
    routes = [
        Route("/", api.page),
        Route("/metrics", api.metrics),
        Route("/api/about", api.about),
        Route("/api/status", api.status),
        Route("/api/events", StatusEvents(job)),
        Route("/api/plan", api.plan),
        Route("/api/sharing", api.sharing),
        Route("/api/history", api.history),
        Route("/api/dead-letters", api.dead_letters),
        Route("/api/queries", api.add, methods=["POST"]),
        Route("/api/queries/{name}", api.query, methods=["GET"]),
        Route("/api/queries/{name}", api.drop, methods=["DELETE"]),
        Route("/api/queries/{name}/rows", api.rows),
        Route("/api/preview", api.preview, methods=["POST"]),
        Route("/api/requests", api.requests),
        Route("/api/requests/{id}", api.request, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: dict[Any, Any] = {
        UsageError: refused,
        MuntinError: failed,
        OSError: failed,
        HTTPException: not_found,
        Exception: unexpected,
    }
    return Starlette(routes=routes, middleware=[Middleware(Guard, access=access)], exception_handlers=handlers)


class Api:
    """What each route answers. Files are read in threads: nobody waits for another's."""

    def __init__(self, job: LiveJob, access: Access):
        self._job = job
        self._access = access

    async def page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def metrics(self, request: Request) -> Response:
        return Response(await run_in_threadpool(metrics.render, self._job), media_type=metrics.CONTENT_TYPE)

    async def about(self, request: Request) -> Response:
        """What this server is, and whether queries can be changed through it."""
        return JSONResponse(
            {
                "muntin": __version__,
                "checkpoint": str(self._job.checkpoint),
                "read_only": self._access.token is None,
            }
        )

    async def status(self, request: Request) -> Response:
        return JSONResponse((await run_in_threadpool(self._job.view)).json)

    async def plan(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._job.plan))

    async def sharing(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._job.sharing))

    async def history(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._job.history))

    async def dead_letters(self, request: Request) -> Response:
        found = await run_in_threadpool(rows.dead_letters, self._job.checkpoint)
        counts = (await run_in_threadpool(self._job.view)).record.dead_letters
        return JSONResponse({"counts": counts, "examples": found})

    async def query(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._job.query, request.path_params["name"]))

    async def rows(self, request: Request) -> Response:
        known = (await run_in_threadpool(self._job.view)).record.queries
        name = request.path_params["name"]
        return JSONResponse(await run_in_threadpool(rows.last_rows, self._job.checkpoint, name, known))

    # -- changes ----------------------------------------------------------------------------------------------------

    async def preview(self, request: Request) -> Response:
        """What a statement would do. It changes nothing, but it is work, so that it needs the token, too."""
        return JSONResponse(await run_in_threadpool(self._job.preview, await _sql(request)))

    async def add(self, request: Request) -> Response:
        sql = client.new_query(await _sql(request))
        return JSONResponse(await run_in_threadpool(self._job.send, sql), 202)

    async def drop(self, request: Request) -> Response:
        sql = client.dropping(request.path_params["name"])
        return JSONResponse(await run_in_threadpool(self._job.send, sql), 202)

    async def requests(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._job.requests))

    async def request(self, request: Request) -> Response:
        """What has become of a request. The last answer is taken with it, so that this is no GET."""
        id = request.path_params["id"]
        if not id.replace("-", "").isalnum():
            raise UsageError(f"{id!r} is no request")
        return JSONResponse(await run_in_threadpool(self._job.request, id))


async def _sql(request: Request) -> str:
    try:
        found = json.loads(await request.body())
        sql = found["sql"]
    except (ValueError, TypeError, KeyError):
        raise UsageError("the body is not a statement", hint='send {"sql": "CREATE QUERY ..."}') from None
    if not isinstance(sql, str):
        raise UsageError("the statement is no text", hint='send {"sql": "CREATE QUERY ..."}')
    return sql


# -- what is wrong ----------------------------------------------------------------------------------------------------


async def refused(request: Request, error: UsageError) -> Response:
    """A wrong request: the message of the command line, and its place in the text where it has one."""
    said: dict[str, Any] = {"error": error.message, "hint": error.hint, "told": error.render()}
    if isinstance(error, SqlError) and error.place is not None:
        said["place"] = {"line": error.place.line, "column": error.place.column, "length": error.place.length}
    return JSONResponse(said, 422)


async def failed(request: Request, error: MuntinError | OSError) -> Response:
    hint = error.hint if isinstance(error, MuntinError) else None
    return JSONResponse({"error": str(getattr(error, "message", error)), "hint": hint, "told": str(error)}, 503)


async def not_found(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": f"{request.method} {request.url.path}: {error.detail}"}, error.status_code)


async def unexpected(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"unexpected {type(error).__name__}"}, 500)
