# Stands in for docker.io/library/haproxy where images cannot be pulled: Debian's HAProxy, started the same way.
FROM debian:12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends haproxy
USER haproxy
CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
