"""Sizes of cold upserts, as ``--cold-sizes`` names them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColdSize:
    """Size of a comparison.

    :param name: as ``--cold-sizes`` has it.
    :param ratio: its name in the JSON.
    """

    name: str
    rows: int
    batch: int
    ratio: str

    @classmethod
    def named(cls, text: str) -> ColdSize:
        """Return the size of a name, or of ``<rows>x<batch>``."""
        if text in SIZES:
            return SIZES[text]
        rows, by, batch = text.partition("x")
        if not (by and rows.isdecimal() and batch.isdecimal() and int(rows) and int(batch)):
            raise ValueError(
                f"{text!r} is no size: expected one of {', '.join(SIZES)}, or <rows>x<batch> like 20000x100"
            )
        return cls(text, int(rows), int(batch), f"cold_{text}_vs_merge")


SIZES = {
    "small": ColdSize("small", 1_000_000, 1_000, "cold_small_vs_bare"),
    "30m": ColdSize("30m", 30_000_000, 50_000, "cold_30m_vs_merge"),
    "100m": ColdSize("100m", 100_000_000, 50_000, "cold_100m_vs_merge"),
}
