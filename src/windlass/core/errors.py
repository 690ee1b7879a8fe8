"""Every error Windlass raises, in one tree, each with a stable code and a way out.

```
WindlassError                     code
├── ConfigError                   WL100   settings, URLs, the machine
│   ├── BadSetting                WL101
│   ├── BadUrl                    WL102
│   ├── UnknownScheme             WL103
│   ├── MissingExtra              WL104
│   ├── UnsupportedPlatform       WL105
│   ├── DuplicateTask             WL106
│   ├── UnknownOption             WL107
│   ├── WrongPool                 WL108
│   └── DuplicateResource         WL109
├── InputError                    WL200   what a caller handed over
│   ├── BadName                   WL201
│   ├── BadValue                  WL202
│   ├── NotSerialisable           WL203
│   ├── TooLarge                  WL204
│   ├── WrongType                 WL205
│   └── UnknownParent             WL206
├── StoreError                    WL300   the place where jobs live
│   ├── StoreUnavailable          WL301
│   ├── StoreClosed               WL302
│   ├── NotWritable               WL303
│   ├── NotADatabase              WL304
│   ├── SchemaTooNew              WL305
│   ├── StoreCorrupt              WL306
│   ├── StoreFull                 WL307
│   ├── UnsafeFile                WL308
│   ├── StoreReplaced             WL309
│   ├── AccessDenied              WL310
│   └── UnfitServer               WL311
├── WorkerError                   WL400   a worker's standing in the store
│   ├── WorkerGone                WL401
│   ├── TicketOutOfOrder          WL402
│   ├── LeaseExpired              WL403
│   ├── BrokenApp                 WL404
│   └── RunnersDie                WL405
└── JobError                      WL500   one job
    ├── JobNotFound               WL501
    ├── CorruptRecord             WL502
    ├── JobDead                   WL503
    ├── JobCancelled              WL504
    ├── JobExpired                WL505
    ├── ResultGone                WL506
    ├── NotFinished               WL507
    ├── WouldBlock                WL508
    ├── NotInJob                  WL509
    ├── MemoryLimit               WL510
    ├── Crashed                   WL511
    ├── BadScript                 WL512
    └── ScriptFailed              WL513
```

An error is one sentence that says what is wrong and one that says what to do next. The code is what
scripts, REST bodies and exit statuses rely on; the words may change.
"""

from __future__ import annotations

from typing import Any, ClassVar


class WindlassError(Exception):
    """Root of the tree. `message` says what is wrong, `todo` what to do next, `code` never changes."""

    code: ClassVar[str] = "WL000"

    def __init__(self, message: str, todo: str = "") -> None:
        super().__init__(message, todo)
        self.message = message
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.message} {self.todo}" if self.todo else self.message


class ConfigError(WindlassError):
    """Settings, URLs or the machine do not allow what was asked."""

    code = "WL100"


class BadSetting(ConfigError):
    """A setting has a value that cannot be used, or a name that does not exist."""

    code = "WL101"


class BadUrl(ConfigError):
    """An engine URL cannot be read."""

    code = "WL102"


class UnknownScheme(ConfigError):
    """An engine URL names an engine that this version does not have."""

    code = "WL103"


class MissingExtra(ConfigError):
    """A feature needs a package that is not installed."""

    code = "WL104"


class UnsupportedPlatform(ConfigError):
    """This operating system cannot give the guarantees the engine promises."""

    code = "WL105"


class DuplicateTask(ConfigError):
    """Two functions of one app have the same task name."""

    code = "WL106"


class UnknownOption(ConfigError):
    """Something was given an option that it does not have: a task, a send, a retry policy, an app or a worker."""

    code = "WL107"


class WrongPool(ConfigError):
    """The worker's pool cannot run a task of this kind."""

    code = "WL108"


class DuplicateResource(ConfigError):
    """Two functions of one app make resources of the same type."""

    code = "WL109"


class InputError(WindlassError):
    """A value handed over by a caller is refused; nothing was stored."""

    code = "WL200"


class BadName(InputError):
    """A name of a task, queue, lane, gate, tag or key has a form that is not allowed."""

    code = "WL201"


class BadValue(InputError):
    """A value lies outside what is allowed."""

    code = "WL202"


class NotSerialisable(InputError):
    """An argument or result has no form that can be stored."""

    code = "WL203"


class TooLarge(InputError):
    """A payload, result or note is larger than its limit."""

    code = "WL204"


class WrongType(InputError):
    """Arguments or a stored result do not fit the annotations of the function by which they are read."""

    code = "WL205"


class UnknownParent(InputError):
    """A job names a parent that is not in the store."""

    code = "WL206"


class StoreError(WindlassError):
    """The store cannot do what was asked."""

    code = "WL300"
    logged = False
    """Whether its engine has logged the outage, and will log the end of it: who waits for that need not."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now; the outcome of the call is unknown, repeating it is safe."""

    code = "WL301"


class StoreClosed(StoreError):
    """The engine has not been opened, or has been closed."""

    code = "WL302"


class NotWritable(StoreError):
    """The store cannot be written: by this user, or because the server is a read-only replica."""

    code = "WL303"


class NotADatabase(StoreError):
    """The file exists and is something else; or the server does."""

    code = "WL304"


class SchemaTooNew(StoreError):
    """The store was migrated by a newer Windlass; this process must stop."""

    code = "WL305"


class StoreCorrupt(StoreError):
    """The store fails its integrity check, or a part of it is missing."""

    code = "WL306"


class StoreFull(StoreError):
    """There is no room left. The call changed nothing; one that sends many may say how many of them were stored."""

    code = "WL307"


class UnsafeFile(StoreError):
    """A file of the store is a link or belongs to somebody else."""

    code = "WL308"


class StoreReplaced(StoreError):
    """The store's file was moved, deleted or replaced while it was open."""

    code = "WL309"


class AccessDenied(StoreError):
    """The server does not accept the login, or the user may not do what the engine needs."""

    code = "WL310"


class UnfitServer(StoreError):
    """The server's version, role or settings do not allow what the engine promises."""

    code = "WL311"


class WorkerError(WindlassError):
    """The worker may not do this now."""

    code = "WL400"


class WorkerGone(WorkerError):
    """The store holds no card of this worker: it never announced itself, or was swept."""

    code = "WL401"


class TicketOutOfOrder(WorkerError):
    """A claim carried a ticket older than the worker's last one."""

    code = "WL402"


class LeaseExpired(WorkerError):
    """The worker's lease has run out; it must renew before it may claim."""

    code = "WL403"


class BrokenApp(WorkerError):
    """The user's app cannot be loaded; `traceback` says where it fails."""

    code = "WL404"
    traceback = ""


class OtherVersion(WorkerError):
    """Another version of Windlass was installed under a worker that runs."""

    code = "WL406"


class RunnersDie(WorkerError):
    """No runner of the worker lives long enough to run anything."""

    code = "WL405"


class JobError(WindlassError):
    """Something is wrong with one job."""

    code = "WL500"


class JobNotFound(JobError):
    """No job of this id: it never was, or retention removed it."""

    code = "WL501"


class CorruptRecord(JobError):
    """A stored record fails its checksum or cannot be read; it is set aside."""

    code = "WL502"


class JobDead(JobError):
    """The job has ended for good with an error; `failure` is what is kept of it."""

    code = "WL503"

    def __init__(self, message: str, todo: str = "", failure: Any = None) -> None:
        super().__init__(message, todo)
        self.failure = failure
        """The `windlass.Failure` that is kept: type, message, traceback, fingerprint."""


class JobCancelled(JobError):
    """The job was cancelled: by a person, by itself, or because a parent ended the wrong way."""

    code = "WL504"


class JobExpired(JobError):
    """The job had not started when its time was over."""

    code = "WL505"


class ResultGone(JobError):
    """The job succeeded, and its result was not kept or is not kept any more."""

    code = "WL506"


class NotFinished(JobError, TimeoutError):
    """The time to wait for a result is over; the job goes on."""

    code = "WL507"


class WouldBlock(JobError):
    """Waiting here would wait for ever: the job one waits for needs the slot one waits in."""

    code = "WL508"


class NotInJob(JobError):
    """There is no current job: the code does not run inside a task."""

    code = "WL509"


class MemoryLimit(JobError):
    """The job used more than its memory, and was killed with its process."""

    code = "WL510"


class Crashed(JobError):
    """The process that ran the job died under it."""

    code = "WL511"


class BadScript(JobError):
    """A script's file is not there for its worker, or may not be run."""

    code = "WL512"


class ScriptFailed(JobError):
    """A script ended with another exit code than 0, was killed, or was more than its worker allows."""

    code = "WL513"


def error_with_code(code: str) -> type[WindlassError]:
    """The class of that code; the root where there is none."""
    todo: list[type[WindlassError]] = [WindlassError]
    while todo:
        kind = todo.pop()
        if kind.code == code:
            return kind
        todo += kind.__subclasses__()
    return WindlassError
