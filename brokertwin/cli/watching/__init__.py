"""Status of a job, a live audit or a gateway over HTTP, for people, programs and Prometheus.

status      the status document of a job or a gateway
sources     builds the document of a running job or gateway
live_source builds the document of a running live audit
rates       rows or responses per second
metrics     the document as Prometheus metrics
server      the HTTP server: page, document, metrics, health
page.html   the page that shows the document in a browser, without other files

`brokertwin top` shows the same document on a terminal.
"""
