from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.untrusted_properties import code_properties

CODE = (
    "write.location-provider.impl",
    " write.location-provider.impl",
    "io-impl",
    "catalog-impl",
    "metrics-reporter-impl",
    "encryption.kms-impl",
    "s3.client-factory-impl",
    "client.factory",
    "client.credentials-provider",
    "fs.file.impl",
    "fs.s3a.endpoint",
    "fs.s3a.aws.credentials.provider",
    "fs.file.impl.disable.cache",
    "FS.FILE.IMPL",
    "hadoop.security.credential.provider.path",
    "io.compression.codecs",
    "io.serializations",
    "parquet.crypto.factory.class",
    "parquet.encryption.kms.client.class",
    "orc.key.provider",
    "orc.encrypt",
)
OF_PYTHON = ("py-io-impl", "py-catalog-impl", "write.py-location-provider.impl")
HARMLESS = (
    "write.parquet.compression-codec",
    "write.metadata.compression-codec",
    "write.data.path",
    "write.object-storage.enabled",
    "parquet.compression.codec.zstd.level",
    "write.parquet.bloom-filter-enabled.column.impl_id",
    "comment",
    "data.owner",
    "write.orc.stripe-size-bytes",
    "history.expire.max-snapshot-age-ms",
)


def test_properties_that_name_classes_or_settings_of_hadoop_are_found_and_no_others() -> None:
    given = dict.fromkeys((*CODE, *OF_PYTHON, *HARMLESS), "x.Y")
    assert set(code_properties(given)) == set(CODE)
    assert set(code_properties(given, of_python=True)) == {*CODE, *OF_PYTHON}


@pytest.mark.parametrize("name", [*CODE, *OF_PYTHON])
def test_a_layout_does_not_choose_code(name: str) -> None:
    with pytest.raises(InvalidSpecError, match="choose code"):
        TableLayout(properties={name: "org.apache.derby.jdbc.EmbeddedDriver"})


@pytest.mark.parametrize(
    "name", ["location", "location ", " Location", "LAKE.x", "lake.x", "external", "is_managed_location", "Owner"]
)
def test_a_layout_does_not_say_what_the_catalog_or_this_package_says(name: str) -> None:
    with pytest.raises(InvalidSpecError, match="by hand"):
        TableLayout(properties={name: "x"})
