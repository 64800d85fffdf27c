"""The images and the compose file agree with the lock, the repository and each other. Nothing is built here."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_lake_provider.catalogs.spark_catalog_properties import ICEBERG_VERSION

REPOSITORY = Path(__file__).parents[2]
DOCKER = REPOSITORY / "docker"
IMAGES = sorted(DOCKER.glob("*.Dockerfile"))
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{(\w+)(:\?[^}]*)?[^}]*\}")


def locked(package: str) -> str:
    """Return the version of a package in the lock."""
    found = re.search(rf"^{package}==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    assert found, f"{package} is not in requirements.lock"
    return found[1]


def instructions(image: Path, name: str) -> list[str]:
    """Return the arguments of each instruction of this name, continued lines joined."""
    text = image.read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith(f"{name} ")]


def test_every_published_port_is_on_loopback() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not str(port).startswith("127.0.0.1:")] == []


def test_no_two_services_publish_one_port() -> None:
    published = [str(port).split(":")[1] for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == len(set(published))


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_everything_an_image_copies_is_in_the_repository_and_not_ignored(image: Path) -> None:
    kept = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [word for line in instructions(image, "COPY") for word in shlex.split(line)[:-1] if word[:2] != "--"]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists(), source
        assert source.split("/")[0] in kept, source


def test_build_contexts_and_dockerfiles_exist() -> None:
    for service in SERVICES.values():
        if "build" in service:
            context = DOCKER / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).is_file()


def test_every_image_is_pinned_by_a_tag_that_does_not_move() -> None:
    built = {service["image"] for service in SERVICES.values() if "build" in service}
    pulled = {service["image"] for service in SERVICES.values()} - built
    bases = {line.split()[0] for image in IMAGES for line in instructions(image, "FROM")}
    for name in pulled | bases:
        assert re.search(r":\D*\d+\.?\d", name), name
        assert "latest" not in name


def test_the_airflow_image_has_the_airflow_of_the_lock() -> None:
    (base,) = instructions(DOCKER / "airflow.Dockerfile", "FROM")
    assert f"-{locked('apache-airflow')}-" in base


def test_both_images_have_one_python() -> None:
    pythons = [re.findall(r"python:?(3\.\d+)", instructions(image, "FROM")[0]) for image in IMAGES]
    assert pythons[0]
    assert pythons == pythons[:1] * len(IMAGES)


def test_the_catalog_image_has_the_iceberg_of_the_jars() -> None:
    assert SERVICES["catalog"]["image"].endswith(f":{ICEBERG_VERSION}")
    jars = (DOCKER / "jars.lock").read_text() + (REPOSITORY / "scripts/jars.lock").read_text()
    versions = re.findall(r"^org\.apache\.iceberg:[^:]+:(\S+)", jars, re.MULTILINE)
    assert versions == [ICEBERG_VERSION] * 2


def test_no_secret_has_a_value_or_a_default() -> None:
    names = {name for service in SERVICES.values() for name in service.get("environment", {})}
    secret = re.compile(r"SECRET|PASSWORD$|FERNET|ACCESS_KEY|ROOT_USER")
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if secret.search(name):
                assert VARIABLE.fullmatch(value), f"{name}={value}"
    assert any(secret.search(name) for name in names)
    assert all(match[2] for match in VARIABLE.finditer((DOCKER / "compose.yaml").read_text()))


def test_the_example_environment_names_exactly_the_variables_of_the_compose_file() -> None:
    wanted = {match[1] for match in VARIABLE.finditer((DOCKER / "compose.yaml").read_text())}
    assert {line.rstrip("=") for line in (DOCKER / ".env.example").read_text().splitlines() if "=" in line} == wanted


def test_services_are_reached_by_names_that_exist() -> None:
    text = (DOCKER / "compose.yaml").read_text() + (DOCKER / "spark-defaults.conf").read_text()
    hosts = set(re.findall(r"(?:https?|spark)://([\w-]+)", text)) | set(re.findall(r"driver\.host\s+(\S+)", text))
    assert hosts - {"localhost"} <= SERVICES.keys()


def test_the_package_accepts_the_connection_of_the_compose_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    text = VARIABLE.sub("example", SERVICES["airflow"]["environment"]["AIRFLOW_CONN_LAKE_DEFAULT"])
    assert json.loads(text)["conn_type"] == "iceberg"
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", text)
    packages = LakeCatalogHook("lake_default").connection.spark_packages()
    jars = (DOCKER / "jars.lock").read_text() + (REPOSITORY / "scripts/jars.lock").read_text()
    assert [package for package in packages if f"{package} " not in jars] == []
