"""The live page of a job, its JSON API and `/metrics`: what a checkpoint says, served on loopback.

`live` reads a checkpoint and keeps what it read; `rows` reads the last rows of a query and examples of dead letters.
`app` has the routes, `events` the server-sent events, `guard` the checks of every request, `metrics` what Prometheus
reads, `server` the process or thread that serves. Only this layer imports starlette, uvicorn and prometheus_client.
"""
