# Stands in for docker.io/versity/versitygw where images cannot be pulled: moto's S3 server. It keeps objects in memory
# and asks nobody to prove a key.
FROM sluice
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends wget \
    && python3 -m venv /moto && /moto/bin/pip install --quiet 'moto[server]==5.2.5'
COPY object_store.py /usr/local/bin/
HEALTHCHECK NONE
ENTRYPOINT ["/moto/bin/python", "/usr/local/bin/object_store.py"]
CMD []
