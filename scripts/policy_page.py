"""The reference page of the settings of a maintenance policy, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from airflow_lake_provider.contracts.durations import short_iso
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.policy_settings import GROUPS, SETTINGS, Setting

_HEAD = """# Policies

<!-- Made from contracts/author/maintenance_policy.py by `python -m scripts.check_docs --write`. -->

[Set a policy](../how-to/policy.md) says where settings are written, and which layer holds. In the file and in a
DAG, settings of a group are below its name. As a property, `compaction.deleted_share` is
`lake.maintenance.compaction.deleted-share`. There a list has commas, and an empty text stands for none.

The last column says what a property of a table or a namespace, or a policy of the catalog, may set. The file
and the DAG may set any value. [Decision 36](../decisions/0036-layers-of-a-policy.md) has the reasons.
"""


def policy_page() -> str:
    """Return the page."""
    own = [each for key, each in SETTINGS.items() if "." not in key]
    lines = [*_HEAD.splitlines(), "", *_table(own, "")]
    for group, cls in GROUPS.items():
        title = group.replace("_", " ").capitalize()
        settings = [each for key, each in SETTINGS.items() if key.startswith(f"{group}.")]
        lines += ["", f"## {title}", "", f"`{group}`: {(cls.__doc__ or '').partition(chr(10))[0]}", ""]
        lines += _table(settings, f"{group}.")
    return "\n".join([*lines, ""])


def _table(settings: list[Setting], within: str) -> Iterator[str]:
    yield "| setting | meaning | kind | default | a property may set |"
    yield "|---|---|---|---|---|"
    for each in settings:
        cells = (
            f"`{each.key.removeprefix(within)}`",
            each.sentence.replace("``", "`").removesuffix("."),
            each.kind.words,
            _default(each),
            each.bound.words,
        )
        yield f"| {' | '.join(cells)} |"


def _default(setting: Setting) -> str:
    plain = short_iso(setting.default) if isinstance(setting.default, timedelta) else to_plain(setting.default)
    if plain is None or plain == []:
        return "none"
    return f"`{str(plain).lower() if isinstance(plain, bool) else plain}`"
