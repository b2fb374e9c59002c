# Stands in for the jars of docker/Dockerfile's `hadoop_aws` where they cannot be fetched: the image with a reader of
# object stores that has the name of Hadoop's.
FROM sluice AS compiled
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends default-jdk-headless
COPY S3AFileSystem.java /tmp/
RUN javac -cp "$(dirname "$(find /sluice/.venv -name 'hadoop-client-api-*.jar')")/*" -d /tmp/classes \
        /tmp/S3AFileSystem.java \
    && jar --create --file /tmp/hadoop-aws.jar -C /tmp/classes .

FROM sluice
COPY --from=compiled /tmp/hadoop-aws.jar /sluice/hadoop-aws/
