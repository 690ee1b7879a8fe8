"""What differs between operating systems, in one folder. Everybody else asks here.

Reading order: `posix.py` (names that POSIX has), `linux.py` (what Linux alone has), `files.py`; of processes,
`starting.py`, `signals.py`, `watching.py` and `ending.py`; `pages.py` (memory that they share), `machine.py` (how much
of it they may use).

What Windows lacks raises `UnsupportedPlatform` when it is called, never when it is imported: a process that needs none
of it runs there.
"""

from windlass.core.system.ending import end_of, has_ended, kill_group, reap_strays, signal_group, wait_for_end
from windlass.core.system.files import free_bytes, open_beneath, open_folder, set_aside, sync_folder, wait_readable
from windlass.core.system.machine import cores, memory_limit
from windlass.core.system.pages import map_page, shared_page
from windlass.core.system.posix import (
    F_OFD_SETLK,
    F_OFD_SETLKW,
    F_RDLCK,
    F_UNLCK,
    LOCK_EX,
    LOCK_NB,
    LOCK_SH,
    LOCK_UN,
    O_SAFE,
    OFD,
    SIGKILL,
    SIGXCPU,
    SIGXFSZ,
    at_fork,
    byte_range,
    flock,
    lock_bytes,
    make_fifo,
    pread,
    pwrite,
    user_id,
)
from windlass.core.system.signals import ending_signals, leave_unheeded
from windlass.core.system.starting import (
    Bounds,
    adopt_orphans,
    die_with_parent,
    is_bound,
    outlive_parent,
    raise_file_limit,
    set_title,
    start_apart,
    start_bound,
)
from windlass.core.system.watching import Footprint, children, environment_of, footprint, is_running

__all__ = [
    "F_OFD_SETLK",
    "F_OFD_SETLKW",
    "F_RDLCK",
    "F_UNLCK",
    "LOCK_EX",
    "LOCK_NB",
    "LOCK_SH",
    "LOCK_UN",
    "OFD",
    "O_SAFE",
    "SIGKILL",
    "SIGXCPU",
    "SIGXFSZ",
    "Bounds",
    "Footprint",
    "adopt_orphans",
    "at_fork",
    "byte_range",
    "children",
    "cores",
    "die_with_parent",
    "end_of",
    "ending_signals",
    "environment_of",
    "flock",
    "footprint",
    "free_bytes",
    "has_ended",
    "is_bound",
    "is_running",
    "kill_group",
    "leave_unheeded",
    "lock_bytes",
    "make_fifo",
    "map_page",
    "memory_limit",
    "open_beneath",
    "open_folder",
    "outlive_parent",
    "pread",
    "pwrite",
    "raise_file_limit",
    "reap_strays",
    "set_aside",
    "set_title",
    "shared_page",
    "signal_group",
    "start_apart",
    "start_bound",
    "sync_folder",
    "user_id",
    "wait_for_end",
    "wait_readable",
]
