"""`windlass call`, `send`, `result`: what is typed becomes arguments, what comes of it output and exit codes."""

from __future__ import annotations

import json
import platform
import subprocess

import pytest

from tests.cli.conftest import Shell


def work(shell: Shell) -> None:
    shell("worker", "tasks.py", "--until-empty")


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (("add", "2", "3"), "5"),
        (("add", "2", "b=3"), "5"),
        (("greet", "2026-11-15"), "2026-11-15"),
        (("greet", '"2"'), "2"),
        (("greet", "a=b=c"), None),
        (("greet", '"a=b"', "loud=true"), "A=B"),
        (("add", "-2", "3"), "1"),
    ],
)
def test_words_become_arguments(shell: Shell, words: tuple[str, ...], result: str | None) -> None:
    if result is None:
        assert "no parameter `a`" in shell.refused("call", "-A", "tasks.py", *words, code=2)
        return
    job_id = shell.out("call", "-A", "tasks.py", *words)
    work(shell)
    assert shell.out("result", job_id) == result
    assert json.loads(shell.out("result", job_id, "--json"))["state"] == "succeeded"


def test_a_file_of_lines_becomes_jobs(shell: Shell) -> None:
    done = shell("send", "-A", "tasks.py", "add", stdin='[1, 2]\n\n{"a": 3, "b": 4}\n')
    ids = done.stdout.split()
    assert done.stderr.endswith("\n2 jobs sent.\n")
    work(shell)
    assert [shell.out("result", job_id) for job_id in ids] == ["3", "7"]
    (shell.folder / "names.jsonl").write_text("".join(f'"n{number}"\n' for number in range(2_500)))
    assert len(shell.out("send", "-A", "tasks.py", "greet", "--from", "names.jsonl").split()) == 2_500


def test_a_bad_line_is_named_and_what_stood_before_it_is_sent(shell: Shell) -> None:
    done = shell("send", "tasks.add", stdin="[1, 2]\n[3,\n[5, 6]\n", code=2)
    assert "Line 2 is not JSON" in done.stderr
    assert "1 job sent." in done.stderr
    assert len(done.stdout.split()) == 1


def test_options_of_a_job(shell: Shell) -> None:
    one = shell.out("call", "-A", "tasks", "add", "1", "1", "--key", "once")
    assert shell.out("call", "-A", "tasks", "add", "1", "1", "--key", "once") == one, "a duplicate of the first"
    late = shell.out("call", "-A", "tasks", "add", "1", "1", "--delay", "90")
    assert "scheduled" in shell.refused("result", late, code=1)


def test_a_job_that_died_is_exit_code_1_with_its_error(shell: Shell) -> None:
    job_id = shell.out("call", "-A", "tasks", "fail", "broken")
    work(shell)
    said = shell.refused("result", job_id, code=1)
    assert "is dead (failed): ValueError: broken" in said


def test_a_program_is_told_that_there_is_no_result(shell: Shell) -> None:
    late = shell.out("call", "-A", "tasks", "add", "1", "1", "--delay", "90")
    dead = shell.out("call", "-A", "tasks", "fail", "broken")
    work(shell)
    for job_id, state, why in ((late, "scheduled", "It is scheduled for "), (dead, "dead", "It is dead (failed)")):
        done = shell("result", job_id, "--json", code=1)
        told = json.loads(done.stdout)
        assert told.pop("why").startswith(why)
        assert (told, done.stderr) == ({"id": job_id, "state": state, "result": None}, "")
    told = json.loads(shell("call", "tasks.add", "1", "1", "--timeout", "0.1", "--json", code=1).stdout)
    assert (told["state"], told["result"]) == ("ready", None)
    assert shell.out("jobs", "show", told["id"]), "its id is not lost"


def test_a_job_is_sent_with_what_it_needs(shell: Shell) -> None:
    how = ("--memory", "512MB", "--needs", "browser=1", "--needs", "gpu=2")
    (shell.folder / "one.jsonl").write_text("[1, 2]\n")
    for words in (("call", "tasks.add", "1", "2", *how), ("send", "tasks.add", "--from", "one.jsonl", *how)):
        job_id = shell.out(*words)
        assert "Needs       1 browser, 2 gpu, 512MB of memory" in shell.out("jobs", "show", job_id)
        assert json.loads(shell.out("jobs", "show", job_id, "--json"))["needs"] == {
            "browser": 1,
            "gpu": 2,
            "memory": 512_000_000,
        }


def test_many_ids_for_programs_are_a_line_each_on_a_terminal_too(shell: Shell) -> None:
    (shell.folder / "two.jsonl").write_text("[1, 2]\n[3, 4]\n")
    *lines, last = shell.on_terminal("send", "-A", "tasks", "add", "--from", "two.jsonl", "--json").splitlines()
    assert [list(json.loads(line)) for line in lines] == [["id"], ["id"]]
    assert last == "2 jobs sent."


def test_waiting_ends_after_the_timeout_and_says_why_the_job_waits(shell: Shell) -> None:
    said = shell("call", "tasks.add", "1", "1", "--wait", "--timeout", "0.2", code=1).stderr
    assert "No worker is running" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("call", "-A", "tasks", "ad", "1"), 2, "The app has no task 'ad'. Did you mean tasks.add?"),
        (("call", "-A", "tasks", "add", "1"), 2, "needs a value for `b`"),
        (("call", "-A", "tasks", "add", "1", "b=2", "3"), 2, "Argument 3 follows one by name. Give"),
        (("call", "tasks.add", "b=2", '{"$secret": "hunter2"}'), 2, "Argument 2 follows one by name. Give"),
        (("call", "tasks.add", '{"$secret": "hunter2}'), 2, "An argument looks like a secret and is not JSON."),
        (("call", "tasks.add", "a={ '$secret': 'hunter2'}"), 2, "An argument looks like a secret and is not JSON."),
        (("call", "-A", "tasks", "-u", "memory://", "add", "1", "2"), 2, "not both"),
        (("call", "-A", "tasks", "add", "1", "2", "--priority", "11"), 2, "a whole number from 0 to 9, not '11'."),
        (("call", "tasks.add", "--memory", "a lot"), 2, "The size 'a lot' cannot be read."),
        (("call", "tasks.add", "--needs", "browser"), 2, "such as browser=1, not 'browser'."),
        (("call", "tasks.add", "--needs", "browser=-1"), 2, "such as browser=1, not 'browser=-1'."),
        (("call", "tasks.add", "--needs", "browser=0"), 2, "A need of 0 browser is not allowed."),
        (("call", "tasks.add", "--needs", "a=1", "--needs", "a=2"), 2, "a is given twice. Give it once."),
        (("call", "tasks.add", "--needs", "memory=1"), 2, "Use memory="),
        (("call", "a task", "1"), 2, "task"),
        (("call", "-u", "postgres://me:hunter2@db/x", "add", "1"), 2, "postgres:// is not in this version"),
        (("call", "-u", "nonsense", "add", "1"), 2, "is not an engine URL"),
        (("result", "12"), 2, "12"),
        (("result", "0198f2b0-6b3c-7000-8000-0123456789ab"), 1, "There is no job 0198f2b0"),
        (("colect",), 2, "There is no command 'colect'."),
    ],
)
def test_what_is_asked_for_wrongly_is_told(shell: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    shell("call", "-A", "tasks", "add", "1", "1")  # so that there is a store
    text = shell.refused(*words, code=code)
    assert said in text
    assert "hunter2" not in text


def test_a_secret_is_sent_from_stdin(shell: Shell) -> None:
    with (shell.folder / "tasks.py").open("a") as tasks:
        tasks.write(
            "from windlass import Secret\n"
            "@app.task\n"
            "def log_in(password: Secret[str], user: str = 'bob') -> str:\n"
            "    return f'{user} {len(password.reveal())}'\n"
        )
    lines = '[{"$secret": "hunter2"}, "ann"]\n{"$secret": "hunter2"}\n{"password": {"$secret": "hunter2"}}\n'
    for how in (("tasks.log_in",), ("-A", "tasks", "log_in")):
        ids = shell.out("send", *how, stdin=lines).split()
        assert "hunter2" not in shell.out("jobs", "show", ids[0])
        work(shell)
        assert [shell.out("result", job_id) for job_id in ids] == ["ann 7", "bob 7", "bob 7"]


def test_a_url_that_is_typed_goes_before_an_app_from_the_environment(shell: Shell) -> None:
    shell.environ["WINDLASS_APP"] = "tasks"
    job_id = shell.out("call", "tasks.add", "1", "2", "-u", "sqlite:///other.db")
    assert shell.out("send", "tasks.add", "-u", "sqlite:///other.db", stdin="[1, 2]\n")
    assert shell("result", job_id, "-u", "sqlite:///other.db", code=1).stderr.startswith(f"Error: The job {job_id} has")
    assert json.loads(shell.out("status", "-u", "sqlite:///other.db", "--json"))
    assert not (shell.folder / "windlass.db").exists(), "the app's store"
    assert "not both" in shell.refused("call", "-A", "tasks", "-u", "sqlite:///other.db", "tasks.add", code=2)


@pytest.mark.parametrize("verb", ["call", "send"])
def test_a_store_that_ends_with_the_command_takes_no_job(shell: Shell, verb: str) -> None:
    said = "Error: A store of the memory engine ends with this command, and the job with it: name another, such as"
    assert said in shell.refused(verb, "tasks.add", "-u", "memory://", code=2)
    (shell.folder / "brief.py").write_text("from windlass import App\napp = App('memory://')\napp.task(print)\n")
    assert said in shell.refused(verb, "builtins.print", "-A", "brief", code=2)


def test_looking_for_a_result_makes_no_store(shell: Shell) -> None:
    said = shell.refused("result", "0198f2b0-6b3c-7000-8000-0123456789ab", code=3)
    assert said.startswith("Error: There is no store sqlite:///windlass.db.")
    assert [path.name for path in shell.folder.iterdir() if path.name.startswith("windlass.db")] == []


def test_a_line_that_is_refused_is_named_and_what_stood_before_it_is_sent(shell: Shell) -> None:
    done = shell("send", "-A", "tasks", "add", "--json", stdin='[1, 2]\n{"a": 1, "b": "x"}\n[5, 6]\n', code=2)
    assert "Line 2 is refused: Wrong type at `b`" in " ".join(done.stderr.split())
    assert "1 job sent." in done.stderr
    assert list(json.loads(done.stdout)) == ["id"]
    assert "is not JSON" in shell("send", "tasks.add", stdin="[" * 100_000, code=2).stderr


def test_sending_goes_on_when_nobody_reads_the_ids(shell: Shell) -> None:
    (shell.folder / "many.jsonl").write_text("[1, 2]\n" * 5_000)
    windlass = shell.command()[0]
    typed = f"{windlass} send -A tasks add --from many.jsonl | head -1"
    done = subprocess.run(
        typed, shell=True, cwd=shell.folder, env=shell.environ, capture_output=True, text=True, check=True
    )
    assert "5,000 jobs sent." in done.stderr
    assert "Traceback" not in done.stderr


def test_a_parameter_may_have_any_name_and_is_given_once(shell: Shell) -> None:
    job_id = shell.out("call", "elsewhere.t", "self=1", "task=2", "args=3")
    assert job_id
    assert "`x` is given twice" in shell.refused("call", "elsewhere.t", "x=1", "x=2", code=2)


def test_a_call_says_on_which_queue_the_job_is(shell: Shell) -> None:
    assert shell("call", "-A", "tasks", "greet", "ann").stderr.endswith("\nThe job is on the queue mail.\n")
    assert shell("call", "tasks.greet", "ann", "-q", "slow").stderr.startswith("The job is on the queue slow.\n")
    sent = shell("call", "-A", "tasks", "greet", "ann", "--json")
    assert (json.loads(sent.stdout)["queue"], sent.stderr) == ("mail", "")
    first = shell("call", "-A", "tasks", "add", "1", "1", "--key", "once", "-q", "slow").stdout
    again = shell("call", "-A", "tasks", "add", "1", "1", "--key", "once")
    said = "Nothing was sent: this job of the same key or id is there already.\nThe job is on the queue slow.\n"
    assert (again.stdout, again.stderr) == (first, said), "where the first one is"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("tasks.greet", "ann", "-q", "mayl"),
            (
                "No worker takes its queue mayl (is mail meant?): box@{host} takes mail. "
                "Start one: windlass worker tasks.py -Q mayl\n"
            ),
        ),
        (
            ("tasks.gret", "ann", "-q", "mail"),
            (
                "It is waiting for a worker that knows its task tasks.gret (is tasks.greet meant?): box@{host} takes "
                "its queue mail and does not know it. Start one with its code: windlass worker tasks.py -Q mail\n"
            ),
        ),
    ],
)
def test_who_waits_for_what_nobody_will_run_is_told_at_once(shell: Shell, words: tuple[str, ...], said: str) -> None:
    with shell.running("worker", "tasks.py", "--name", "box", "-Q", "mail") as worker:
        worker.wait_for("has started")
        with shell.running("call", *words, "--wait") as call:
            call.wait_for(said.format(host=platform.node()))
            assert call.process.poll() is None, "and it waits all the same"
    assert call.text.splitlines()[0].endswith(f" on the queue {words[-1]} …")
    assert call.text.count("\n") == 2, "it is said once"


def test_a_task_that_no_worker_knows_is_sent_with_a_remark(shell: Shell) -> None:
    done = shell("call", "elsewhere.task", "1")
    assert done.stderr.startswith(f"A new store begins here: sqlite:///windlass.db in {shell.folder}.\n")
    assert done.stderr.endswith(
        "The job is on the queue default.\nNo running worker knows elsewhere.task: the job waits for one.\n"
    )
    with shell.running("worker", "tasks.py") as worker:
        worker.wait_for("has started")
        assert "Did you mean tasks.add?" in shell("call", "tasks.ad", "1", "2").stderr
        assert shell.out("call", "add", "1", "2", "--wait") == "3", "the last part is enough where it is the only one"


def test_a_misspelt_option_is_not_an_argument(shell: Shell) -> None:
    for option, meant in (("--wiat", "--wait"), ("--delays", "--delay")):
        said = shell.refused("call", "tasks.greet", "you", option, code=2)
        assert f"No such option '{option}'. Did you mean '{meant}'?" in said
    assert "Did you mean" not in shell.refused("call", "tasks.greet", "you", "--zzz", code=2)
    assert not (shell.folder / "windlass.db").exists()
    job_id = shell.out("call", "tasks.greet", "-1", "--", "--text")
    assert json.loads(shell.out("jobs", "show", job_id, "--json"))["args"] == [-1, "--text"]


def test_a_task_with_a_queue_of_its_own_is_hinted_at(shell: Shell) -> None:
    with shell.running("worker", "tasks.py", "-Q", "mail") as worker:
        worker.wait_for("has started")
        assert "may have a queue of its own" in shell("call", "tasks.greet", "you").stderr
        assert "may have" not in shell("call", "-A", "tasks", "greet", "you").stderr
