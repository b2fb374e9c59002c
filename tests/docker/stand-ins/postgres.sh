#!/bin/sh
# The entry point of postgres.Dockerfile: makes the database cluster where there is none, then serves.
set -eu
data=/var/lib/postgresql/18/docker
export PGHOST=/tmp PGUSER=postgres
if [ ! -e "$data/PG_VERSION" ]; then
    mkdir --parents "$(dirname "$data")"
    printf %s "$POSTGRES_PASSWORD" >/tmp/password
    # shellcheck disable=SC2086  # arguments, in one variable
    initdb --pgdata="$data" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 $POSTGRES_INITDB_ARGS
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    pg_ctl --pgdata="$data" --wait --options="-c listen_addresses='' -k /tmp" start
    createdb "$POSTGRES_DB"
    for script in /docker-entrypoint-initdb.d/*.sql; do
        psql --no-psqlrc --set ON_ERROR_STOP=1 --dbname "$POSTGRES_DB" --file "$script"
    done
    pg_ctl --pgdata="$data" --wait stop
fi
exec postgres -D "$data" -c listen_addresses='*' -k /tmp "$@"
