"""The reference page of what table formats can do, made from what they declare."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_lake_provider.contracts.capabilities import CAPABILITIES, FORMATS, FormatCapabilities, Gap

_HEAD = """# Capabilities of table formats

<!-- Made from airflow_lake_provider/contracts/capabilities.py by `python -m scripts.check_docs --write`. -->

A task that needs what its table's format lacks is refused by name before Spark starts. What only a version
lacks is refused for a table of that version, also before Spark, once the catalog has shown the table. New
columns of a batch are known in Spark alone, so `schema-evolution` is asked for there.

No task asks for
{described}.
These say what tables are like.

The behaviour tests run for versions 2 and 3, those of strategies for version 1 too. There a gap is a test
that has to fail, so a gap that closes is noticed.

| gap | whose it is |
|---|---|
| *ours* | nobody has written it here yet |
| *upstream* | another project lacks what it takes |
| *never* | the format, or the version, rules it out |
"""


def capabilities_page() -> str:
    """Return the page."""
    described = [f"`{name}`" for name, each in CAPABILITIES.items() if not each.is_asked]
    head = _HEAD.format(described=f"{', '.join(described[:-1])} and {described[-1]}")
    return "\n".join([head, *(line for capabilities in FORMATS.values() for line in _format(capabilities))])


def _format(capabilities: FormatCapabilities) -> Iterator[str]:
    yield f"## {capabilities.title}\n"
    groups = dict.fromkeys(each.group for each in capabilities.names.values())
    for group in groups:
        yield f"### {group.capitalize()}\n"
        yield f"| capability | what it does | {' | '.join(f'version {version}' for version in capabilities.versions)} |"
        yield f"|---|---|{'---|' * len(capabilities.versions)}"
        for name, capability in capabilities.names.items():
            if capability.group == group:
                cells = (_cell(capabilities.gap(name, version)) for version in capabilities.versions)
                yield f"| `{name}` | {_as_text(capability.sentence)} | {' | '.join(cells)} |"
        yield ""
    yield "### Reasons\n"
    yield "| capability | gap | reason |"
    yield "|---|---|---|"
    for name in capabilities.names:
        gaps = dict.fromkeys(
            gap for version in capabilities.versions if (gap := capabilities.gap(name, version)) is not None
        )
        yield from (f"| `{name}` | *{gap.kind.value}* | {_as_text(gap.reason)} |" for gap in gaps)
    yield ""


def _cell(gap: Gap | None) -> str:
    return "yes" if gap is None else f"*{gap.kind.value}*"


def _as_text(sentence: str) -> str:
    """Return a sentence in which names of code are code."""
    return sentence.replace("MERGE INTO", "`MERGE INTO`").replace("strategy='equality'", "`strategy='equality'`")
