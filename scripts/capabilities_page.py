"""The reference page of what table formats can do, made from what they declare."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_lake_provider.contracts.capabilities import FORMATS, FormatCapabilities
from airflow_lake_provider.contracts.capability_names import CAPABILITIES

_HEAD = """# Capabilities of table formats

<!-- Made from airflow_lake_provider/contracts/capabilities.py by `python -m scripts.check_docs --write`. -->

A task that needs what its table's format lacks is refused by name before Spark starts. What only a version
lacks is refused for a table of that version, also before Spark, once the catalog has shown the table. New
columns of a batch are known in Spark alone, so `schema-evolution` is asked for there.

No task asks for
{described}.
These say what tables are like.

Behaviour tests try what is declared. In them a gap is a test that has to fail, so a gap that closes is
noticed. {tried}

| mark | meaning |
|---|---|
| yes | there, and tried by the behaviour tests |
| untried | there by its code, which is that of the next version; no behaviour test tries it |
| *ours* | nobody has written it here yet |
| *upstream* | another project lacks what it takes |
| *never* | the format, or the version, rules it out |
"""


def capabilities_page() -> str:
    """Return the page."""
    described = [f"`{name}`" for name, each in CAPABILITIES.items() if not each.is_asked]
    tried = "\n".join(_tried(capabilities) for capabilities in FORMATS.values())
    head = _HEAD.format(described=f"{', '.join(described[:-1])} and {described[-1]}", tried=tried)
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
                cells = (_cell(capabilities, name, version) for version in capabilities.versions)
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


def _tried(capabilities: FormatCapabilities) -> str:
    whole = [str(version) for version in capabilities.versions if version not in capabilities.tried]
    parts = "".join(f", for version {version} in part" for version in capabilities.tried)
    return f"{capabilities.title} runs all of them for versions {' and '.join(whole)}{parts}."


def _cell(capabilities: FormatCapabilities, name: str, version: int) -> str:
    if gap := capabilities.gap(name, version):
        return f"*{gap.kind.value}*"
    return "yes" if capabilities.is_tried(name, version) else "untried"


def _as_text(sentence: str) -> str:
    """Return a sentence in which names of code are code."""
    return sentence.replace("MERGE INTO", "`MERGE INTO`").replace("strategy='equality'", "`strategy='equality'`")
