"""Settings: one order of precedence, one value, and everybody can see where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.core.errors import BadSetting
from windlass.core.settings import Settings, load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app" / "deep").mkdir(parents=True)
    return tmp_path / "app" / "deep"


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_without_anything_the_defaults_hold(folder: Path) -> None:
    loaded = load(None, {}, folder)
    assert loaded.settings == Settings()
    assert loaded.settings.url == "sqlite:///windlass.db"
    assert (loaded.settings.lease_s, loaded.settings.beat_s, loaded.settings.sweep_s) == (15, 5, 1)
    assert {origin for _, origin in loaded.origins.values()} == {"default"}


def test_arguments_beat_environment_beats_file_beats_default(folder: Path) -> None:
    write(folder.parent / "pyproject.toml", '[tool.windlass]\nurl = "file"\nlease = "50s"\nbeat = "6s"\n')
    environ = {"WINDLASS_URL": "environment", "WINDLASS_LEASE": "40s"}
    loaded = load({"url": "memory://"}, environ, folder)
    assert loaded.settings.url == "memory://"
    assert loaded.settings.lease_s == 40
    assert loaded.settings.beat_s == 6
    assert loaded.settings.sweep_s == 1
    assert loaded.origins["url"] == ("memory://", "argument")
    assert loaded.origins["lease"] == (40, "environment WINDLASS_LEASE")
    assert loaded.origins["beat"] == (6, f"{folder.parent / 'pyproject.toml'} [tool.windlass]")
    assert loaded.origins["sweep"] == (1, "default")


def test_the_nearest_file_is_the_only_one_read(folder: Path) -> None:
    write(folder.parent / "windlass.toml", 'url = "far"\nsweep = "9s"\n')
    write(folder / "windlass.toml", 'url = "near"\n')
    loaded = load(None, {}, folder)
    assert loaded.settings.url == "near"
    assert loaded.settings.sweep_s == 1


def test_a_pyproject_without_our_table_is_passed_over(folder: Path) -> None:
    write(folder / "pyproject.toml", "[tool.other]\nx = 1\n")
    write(folder.parent / "windlass.toml", 'url = "far"\n')
    assert load(None, {}, folder).settings.url == "far"


def test_windlass_toml_beats_pyproject_in_one_folder(folder: Path) -> None:
    write(folder / "pyproject.toml", '[tool.windlass]\nurl = "shared"\n')
    write(folder / "windlass.toml", 'url = "own"\n')
    assert load(None, {}, folder).settings.url == "own"


def test_durations_sizes_and_counts_are_read_in_peoples_form(folder: Path) -> None:
    write(folder / "windlass.toml", 'keep_dead = "7d"\nlease = 30\nkeep_succeeded_count = 50\n')
    environ = {"WINDLASS_PAYLOAD_BYTES": "1MiB", "WINDLASS_TAGS": "5", "WINDLASS_AGING_STEP": "1m"}
    limits = load({"disk_floor_bytes": "1GiB", "beat": 2}, environ, folder).settings.limits
    assert limits.keep_dead_us == 7 * 86_400 * 10**6
    assert (limits.payload_bytes, limits.tags, limits.aging_step_us, limits.keep_succeeded_count) == (
        1 << 20,
        5,
        60_000_000,
        50,
    )


def test_an_argument_of_none_counts_as_not_given(folder: Path) -> None:
    assert load({"url": None}, {"WINDLASS_URL": "memory://"}, folder).settings.url == "memory://"


def test_an_empty_variable_counts_as_not_set(folder: Path) -> None:
    assert load(None, {"WINDLASS_URL": " ", "WINDLASS_URL_FILE": ""}, folder).origins["url"][1] == "default"


def test_the_url_can_come_from_a_secret_file(folder: Path) -> None:
    secret = folder / "url.txt"
    write(secret, "redis://ann:hunter2@host/0\n")
    loaded = load(None, {"WINDLASS_URL_FILE": str(secret)}, folder)
    assert loaded.settings.url == "redis://ann:hunter2@host/0"
    assert loaded.origins["url"] == ("redis://ann:***@host/0", f"file {secret} (WINDLASS_URL_FILE)")


@pytest.mark.parametrize("content", [None, "", "\n", "a\nb\n"])
def test_a_secret_file_that_holds_no_url_is_refused_by_name(folder: Path, content: str | None) -> None:
    secret = folder / "url.txt"
    if content is not None:
        write(secret, content)
    with pytest.raises(BadSetting, match=r"url\.txt"):
        load(None, {"WINDLASS_URL_FILE": str(secret)}, folder)


def test_url_and_url_file_together_are_refused(folder: Path) -> None:
    with pytest.raises(BadSetting, match="Both"):
        load(None, {"WINDLASS_URL": "memory://", "WINDLASS_URL_FILE": "x"}, folder)


def test_an_unknown_name_is_an_error_that_names_the_near_miss_and_the_source(folder: Path) -> None:
    with pytest.raises(BadSetting, match=r"'leese' \(from argument\).*`lease`"):
        load({"leese": 3}, {}, folder)
    with pytest.raises(BadSetting, match=r"WINDLASS_PAYLOAD_BYTE .*WINDLASS_PAYLOAD_BYTES"):
        load(None, {"WINDLASS_PAYLOAD_BYTE": "3"}, folder)
    write(folder / "windlass.toml", 'urll = "x"\n')
    with pytest.raises(BadSetting, match=r"windlass\.toml.*`url`"):
        load(None, {}, folder)


def test_variables_that_kubernetes_sets_for_a_service_called_windlass_are_ignored(folder: Path) -> None:
    environ = {
        "WINDLASS_SERVICE_HOST": "10.0.0.1",
        "WINDLASS_SERVICE_PORT": "80",
        "WINDLASS_SERVICE_PORT_HTTP": "80",
        "WINDLASS_PORT": "tcp://10.0.0.1:80",
        "WINDLASS_PORT_80_TCP": "tcp://10.0.0.1:80",
        "WINDLASS_PORT_80_TCP_ADDR": "10.0.0.1",
        "WINDLASS_REDIS_SERVICE_HOST": "10.0.0.2",
    }
    assert load(None, environ, folder).settings == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEASE", "15"),
        ("LEASE", "-1s"),
        ("PAYLOAD_BYTES", "lots"),
        ("PAYLOAD_BYTES", "0"),
        ("TAGS", "1.5"),
        ("JSON_DEPTH", "100000"),
        ("SWEEP", "0s"),
        ("BEAT", "14s"),
    ],
)
def test_a_bad_value_is_refused_naming_the_setting_and_where_it_was_set(folder: Path, name: str, value: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load(None, {f"WINDLASS_{name}": value}, folder)
    assert name.lower() in caught.value.message
    assert f"environment WINDLASS_{name}" in caught.value.message
    assert caught.value.todo


def test_a_url_must_be_text(folder: Path) -> None:
    write(folder / "windlass.toml", "url = 5\n")
    with pytest.raises(BadSetting, match="`url`"):
        load(None, {}, folder)


def test_a_broken_file_is_named(folder: Path) -> None:
    write(folder / "windlass.toml", "url = \n")
    with pytest.raises(BadSetting, match=r"windlass\.toml is not valid TOML.*line 1"):
        load(None, {}, folder)


def test_our_table_must_be_a_table(folder: Path) -> None:
    write(folder / "pyproject.toml", "[tool]\nwindlass = 5\n")
    with pytest.raises(BadSetting, match="not a table"):
        load(None, {}, folder)


def test_the_table_shows_every_value_and_origin_and_no_password(folder: Path) -> None:
    loaded = load({"url": "redis://ann:hunter2@host/0"}, {"WINDLASS_KEEP_RESULT": "90m"}, folder)
    table = loaded.table()
    lines = {line.split()[0]: line for line in table.splitlines()}
    assert set(lines) == set(loaded.origins)
    assert lines["url"].split()[1:] == ["redis://ann:***@host/0", "argument"]
    assert "1h 30m" in lines["keep_result"]
    assert lines["keep_result"].endswith("environment WINDLASS_KEEP_RESULT")
    assert "256 KiB" in lines["payload_bytes"]


def test_no_form_of_the_settings_shows_the_password(folder: Path) -> None:
    loaded = load({"url": "redis://ann:hunter2@host/0"}, {}, folder)
    shown = [loaded.table(), repr(loaded), str(loaded.settings), repr(loaded.origins), f"{loaded.settings}"]
    shown.append(repr(loaded.settings.__rich_repr__()))
    assert not [text for text in shown if "hunter2" in text]


def test_secret_names_are_a_list_or_text_with_commas(folder: Path) -> None:
    assert load({"secret_names": ["pin", " iban "]}, {}, folder).settings.secret_names == ("pin", "iban")
    assert load(None, {"WINDLASS_SECRET_NAMES": "pin, iban,"}, folder).settings.secret_names == ("pin", "iban")
    write(folder / "windlass.toml", "secret_names = []\n")
    assert load(None, {}, folder).settings.secret_names == ()
    for bad in (7, ["pin", 7], {"pin": 1}):
        with pytest.raises(BadSetting, match=r"The setting `secret_names` from argument cannot be used"):
            load({"secret_names": bad}, {}, folder)
