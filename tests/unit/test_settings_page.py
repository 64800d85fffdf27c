from __future__ import annotations

from pathlib import Path

from airflow_lake_provider.spark_jobs.session.pinned_settings import PINNED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_of_settings_lists_what_a_job_pins() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = (
        f"| `{pinned.name}` | {'not set' if pinned.value is None else f'`{pinned.value}`'} | {pinned.why} |"
        for pinned in PINNED
    )
    assert [row for row in rows if row not in text] == []
