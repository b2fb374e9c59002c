# Stands in for docker.io/library/postgres:18 where images cannot be pulled: the embedded PostgreSQL 18 of Sluice's own
# image, with the settings, the volume and the folder of first scripts that docker/compose.yaml counts on.
FROM sluice
USER root
RUN useradd --system --uid 999 postgres \
    && mkdir --parents /var/lib/postgresql && chown postgres /var/lib/postgresql \
    && ln --symbolic "$(dirname "$(find /sluice -path '*18/bin/initdb')")"/* /usr/local/bin/
COPY postgres.sh /usr/local/bin/
USER postgres
HEALTHCHECK NONE
ENTRYPOINT ["/usr/local/bin/postgres.sh"]
CMD []
