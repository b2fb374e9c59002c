"""What docker/compose.yaml promises, read from the file: who reaches what, who waits for whom, where secrets are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pyspark
import pytest

from tests.docker.compose_file import FILE, PATH, SERVICES, command, environment

_GATEWAYS: Final = ("gateway-1", "gateway-2")
_OF_LAKE: Final = (*_GATEWAYS, "bucket", "spark-worker")
_SECRETS: Final = {
    "$STORE_PASSWORD": "the-store's",
    "$CATALOG_PASSWORD": "the-catalog's",
    "$SLUICE_PASSWORD": "clients'",
}


def test_from_outside_only_this_machine_reaches_the_gateways_and_sparks_page() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"gateway": ["127.0.0.1:5433:5433"], "spark-master": ["127.0.0.1:8080:8080"]}
    assert not any(service.keys() & {"network_mode", "privileged", "extra_hosts"} for service in SERVICES.values())


def test_the_key_of_the_store_is_in_environments_only() -> None:
    secret = _SECRETS["$STORE_PASSWORD"]
    for name, service in SERVICES.items():
        assert secret not in str(command(name, _SECRETS)), name
        assert "STORE_PASSWORD" not in str({part: words for part, words in service.items() if part != "environment"})
    holders = {name for name in SERVICES if secret in environment(name, _SECRETS).values()}
    assert holders == {*_OF_LAKE, "object-store"}


def test_a_password_that_is_set_is_everybodys() -> None:
    store = environment("object-store", _SECRETS)
    for name in _OF_LAKE:
        lake = environment(name, _SECRETS)
        assert lake["AWS_ACCESS_KEY_ID"] == store["ROOT_ACCESS_KEY_ID"]
        assert lake["AWS_SECRET_ACCESS_KEY"] == store["ROOT_SECRET_ACCESS_KEY"]
        assert lake["SLUICE_S3_REGION"] == store["VGW_REGION"]
        assert lake["SLUICE_S3_ENDPOINT"] == f"http://object-store{store['VGW_PORT']}"


def test_gateways_wait_for_the_store_and_the_bucket() -> None:
    """The bucket's service waits by itself: podman starts nothing after what has ended, if that waits for more."""
    for name in _GATEWAYS:
        assert SERVICES[name]["depends_on"]["object-store"] == {"condition": "service_healthy"}
        assert SERVICES[name]["depends_on"]["bucket"] == {"condition": "service_completed_successfully"}
    assert "depends_on" not in SERVICES["bucket"]
    assert SERVICES["bucket"]["restart"] == "no"
    asked = SERVICES["object-store"]["healthcheck"]["test"]
    store = environment("object-store", {})
    assert f"http://127.0.0.1{store['VGW_PORT']}{store['VGW_HEALTH']}" in asked


def test_the_store_alone_keeps_the_lake() -> None:
    """No folder is shared: what two services mount is a file of the checkout."""
    mounts = [(name, mount.split(":")) for name, service in SERVICES.items() for mount in service.get("volumes", [])]
    named = [(volume, name) for name, (volume, *_) in mounts if not volume.startswith("./")]
    assert sorted(named) == [
        ("catalog", "postgres"), ("gateway-1", "gateway-1"), ("gateway-2", "gateway-2"), ("objects", "object-store"),
    ]  # fmt: skip
    assert set(FILE["volumes"]) == {volume for volume, _ in named}
    assert ["objects", SERVICES["object-store"]["command"][-1]] in [place for _, place in mounts]
    assert all((PATH.parent / place[0]).is_file() for _, place in mounts if place[0].startswith("./"))


def test_executors_have_the_jars_that_the_image_has() -> None:
    dockerfile = (PATH.parent / "Dockerfile").read_text()
    assert "WORKDIR /sluice\n" in dockerfile
    assert re.search(r"mv /tmp/ivy/jars/\*\.jar hadoop-aws ", dockerfile)
    for name in _GATEWAYS:
        settings = [word for word in command(name, {}) if word.startswith("--spark-conf=")]
        assert settings == [
            f"--spark-conf=spark.{part}.extraClassPath=/sluice/hadoop-aws/*" for part in ("driver", "executor")
        ]


def test_the_jars_are_of_the_hadoop_that_spark_has() -> None:
    dockerfile = (PATH.parent / "Dockerfile").read_text()
    version = re.search(r"^ARG hadoop_aws=org\.apache\.hadoop:hadoop-aws:(\S+)$", dockerfile, re.MULTILINE)
    assert version is not None
    assert (Path(pyspark.__file__).parent / "jars" / f"hadoop-client-api-{version[1]}.jar").exists()


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_image_has_a_version_or_is_built_here(service: str) -> None:
    image = SERVICES[service]["image"]
    assert image == "sluice" or re.fullmatch(r"[\w/-]+:v?\d[\w.]*", image), image
