"""Texts that Python or a reader takes for numbers, and that strangers may write into a table."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.errors import BrokenMetadataError, LakeProviderError
from airflow_lake_provider.contracts.property_values import moment, number_property, whole_number
from airflow_lake_provider.contracts.table_properties import RECENT_RUN_KEYS, RUN_KEYS_DROPPED_BEFORE
from airflow_lake_provider.tables.watermark import Since, Watermark

POISON = [
    "²",
    "١٢",
    "9" * 5000,
    "9223372036854775808",
    "-1",
    "1e3",
    "0x10",
    "1_000",
    "",
    " ",
    "\ud800",
    "NaN",
    "1.5",
]


def short(value: object) -> str:
    """Name a case: Python refuses to write a number of 5,000 digits."""
    return ascii(value)[:24] if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize("text", POISON, ids=short)
def test_what_is_no_number_of_63_bits_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_numbers_of_63_bits_are_read() -> None:
    assert [whole_number(text) for text in ("0", "007", "9223372036854775807")] == [0, 7, 2**63 - 1]
    assert whole_number(None) is None


@pytest.mark.parametrize("text", POISON, ids=short)
def test_a_property_that_is_no_number_is_named_with_its_value_and_a_remedy(text: str) -> None:
    with pytest.raises(BrokenMetadataError, match=r"shop\.orders: property 'write\.size' is .*UNSET") as refused:
        number_property("shop.orders", {"write.size": text}, "write.size")
    str(refused.value).encode()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("text", POISON, ids=short)
def test_a_start_or_a_watermark_that_is_no_number_is_an_error_of_ours(text: str) -> None:
    for read in (Since.parse, Watermark.parse, lambda seconds: Watermark.parse(f"1@{seconds}")):
        with pytest.raises(LakeProviderError) as refused:
            read(text)
        str(refused.value).encode()


@pytest.mark.parametrize(
    "value", [10**5000, -1, 2**63, "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"], ids=short
)
def test_a_start_that_no_clock_or_catalog_knows_is_an_error_of_ours(value: int | str) -> None:
    with pytest.raises(LakeProviderError, match="since="):
        Since.parse(value)


@pytest.mark.parametrize("seconds", [10**12, 2**63 - 1, -(10**12), 10**400], ids=short)
def test_a_time_that_no_datetime_has_is_none(seconds: int) -> None:
    assert moment(seconds) is None
    if 0 <= seconds < 2**63:
        with pytest.raises(LakeProviderError):
            Watermark.parse(f"1@{seconds}")


@pytest.mark.parametrize("text", [text for text in POISON if text], ids=short)
def test_run_keys_that_are_no_numbers_are_left_out_and_no_old_retry_passes_for_a_new_run(text: str) -> None:
    properties = {RECENT_RUN_KEYS: f"{'a' * 16}@{text},{'b' * 16}@5", RUN_KEYS_DROPPED_BEFORE: text}
    found = RecentRunKeys.read(properties)
    assert [key for key, at in found.entries if at == 5] == ["b" * 16]
    assert found.dropped_before is not None
    assert moment(found.dropped_before) is not None
