"""Lines of ``spark-submit``: those that are Spark's own, and those that a person has to read.

The lines of log4j (as Spark's own settings have them), Ivy, the JVM's notices and progress bars are Spark's own. A line
that is none of these is the job's: what an author's code prints, a traceback, the last words of a JVM that dies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LEVEL = "TRACE|DEBUG|INFO|WARN|ERROR|FATAL"
# ``26/11/26 00:05:12 WARN Utils: ...``, or a line of JSON. Python's own logging writes years of four digits.
_LOG4J = rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:{_LEVEL}) [\w.$-]+: |\{{\"ts\":\"[^\"]+\",\"level\":\"(?:{_LEVEL})\""
_JVM = (
    r"WARNING: (?:Using incubator modules|A terminally deprecated method|A restricted method|Restricted methods|"
    r"An illegal reflective access|Illegal reflective access|All illegal access operations|Please consider reporting|"
    r"Use --(?:enable-native-access|illegal-access|add-opens)|\S+::\S+ (?:has been|will be))|"
    r"Picked up (?:_JAVA_OPTIONS|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS): |NOTE: Picked up JDK_JAVA_OPTIONS: |"
    r"\S+ (?:64-Bit )?Server VM warning: (?:Sharing is only supported|Archived |.*(?:CDS|shared archive))|"
    r"\[[\d.]+s\]\[\w+ *\]\[cds"
)
_LOGGING = (
    r"Using Spark's default log4j profile: |Setting (?:Spark|default) log level to |To adjust logging level use |"
    r"log4j:(?:WARN|ERROR) |SLF4J(?:\([WEI]\))?: |Using properties file: "
)
_IVY = (
    r":: |:: ?(?:loading settings|resolving dependencies|resolution report|retrieving|problems summary)|::::|"
    r"Ivy Default Cache set to: |The jars for the packages stored in: |[^\s#]+#[^\s#]+ added as a dependency|"
    r"\S+ added as a remote repository with the name: |downloading https?://|Loading (?:Ivy )?settings|"
    r"You probably access the destination server through a proxy "
)
_PROGRESS = r"\[Stage \d+:"
_OWN = re.compile(f"{_LOG4J}|{_JVM}|{_LOGGING}|{_IVY}|{_PROGRESS}")
# What belongs to the line before it: a stack trace, the cause of an exception, the lines of a table.
_CONTINUES = re.compile(
    r"\s|$|Caused by: |Suppressed: |-{10,}$|(?:[\w$]+\.)*[\w$]*(?:Exception|Error|Throwable)\b(?::|$)"
)
# Waits that nothing else tells of. Of a state of YARN or Kubernetes only the change is told.
_WAIT = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:WARN Tasks: (?=Retrying task after failure: )|INFO HttpRequestRetryExec: \S+ |"
    r"WARN (?:TaskSchedulerImpl|YarnScheduler): (?=Initial job has not accepted any resources)|"
    r"INFO Client: (?=Application report for )|INFO LoggingPodStatusWatcherImpl: (?=Application status for ))(.*)"
)
_STATE = "Application "


@dataclass
class SparkOutput:
    """Sorts the lines of one ``spark-submit``, in their order."""

    _is_own: bool = False
    _states: set[str] = field(default_factory=set)

    def is_own(self, line: str) -> bool:
        """Tell whether a line is Spark's own.

        :param line: as it came, with the spaces that it begins with.
        """
        if not _CONTINUES.match(line):
            self._is_own = _OWN.match(line) is not None
        return self._is_own

    def wait(self, line: str) -> str | None:
        """Return what a line of Spark's own says about a wait that begins; None where it says nothing new."""
        found = _WAIT.match(line)
        said = None if found is None else str(found[1])
        if said is None or not said.startswith(_STATE):
            return said
        if said in self._states:
            return None
        self._states.add(said)
        return said
