"""What a job or a gateway says of itself over HTTP, for people, programs and Prometheus.

status      where a job or a gateway stands: one document for all that follow
sources     the document of a job that runs, and of a gateway
rates       events per second
metrics     the document as Prometheus' metrics
server      the HTTP server: page, document, metrics, health
page.html   what a browser shows of the document, by itself: it loads nothing but that

`brokertwin top` shows the same document on a terminal.
"""
