"""Rights: who measures looks into other processes and puts one before all others, and not everybody may."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.anatomy import spy, verbs


class Forbidden(Exception):
    """Something is needed that is not there or not allowed; the text says what to do."""


def check() -> None:
    """Tries both on processes that do nothing, so that nobody measures for minutes to learn that he may not."""
    if not spy.PROGRAM.exists():
        raise Forbidden(f"There is no py-spy in {spy.PROGRAM.parent}: `make venv` installs it.")
    try:
        with verbs.goes_first(os.getpid()):
            pass
    except PermissionError:
        raise Forbidden(
            "The server must go before other processes while its scripts are timed, which is not allowed here: run as "
            "root (in a container, with the capability SYS_NICE)."
        ) from None
    asleep = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(asleep, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        command = [spy.PROGRAM, "dump", "--pid", str(process.pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        process.communicate()
    if done.returncode:
        raise Forbidden(
            "py-spy may not look into other processes here: run as root (in a container, with the capability "
            f"SYS_PTRACE) or with ptrace scope 0. It says: {' '.join(done.stderr.split())}"
        )
