"""An audit whose executor is a process of its own, to see what the driver takes: `STORE ROWS AS_OF_MS FOLDER`.

Prints the most memory, in MiB, that this process and the Java which it drives have had.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from loadtest.bench import proc
from loadtest.bench.spark_audit_lines import check_violations
from loadtest.bench.spark_session import CORES, session
from txn.audit.session import settings_of

MASTER = f"local-cluster[1,{CORES},2048]"
HEAP = "1g"
MEBIBYTE = 1 << 20


def main(url: str, rows: int, as_of_ms: int, folder: Path) -> None:
    """Audits, and tells."""
    with session(folder, MASTER, HEAP, settings_of(MASTER)) as spark:
        check_violations(spark, url, rows, as_of_ms)
        java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        print(peak_mib(os.getpid()), peak_mib(java))


def peak_mib(pid: int) -> float:
    """The most memory that a process has had."""
    status = proc.parse_kib_fields(Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return status["VmHWM"] / MEBIBYTE


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
