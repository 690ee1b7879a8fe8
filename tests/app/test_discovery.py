"""Discovery: importing packages so that their tasks are known."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import App
from windlass.app.discovery import discover
from windlass.core.errors import BadValue

TREE = {
    "shop/__init__.py": "",
    "shop/__main__.py": "raise SystemExit('the program was started')",
    "shop/tasks.py": "loaded = True",
    "shop/views.py": "loaded = True",
    "shop/mail/__init__.py": "",
    "shop/mail/tasks.py": "loaded = True",
    "shop/mail/deep/__init__.py": "",
    "shop/mail/deep/more.py": "loaded = True",
    "single.py": "loaded = True",
    "broken/__init__.py": "",
    "broken/tasks.py": "import not_installed_anywhere",
    "wrong/__init__.py": "",
    "wrong/tasks.py": "1 / 0",
}


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"shop", "single", "broken", "wrong"}:
            del sys.modules[name]


def test_a_package_is_imported_with_everything_in_it_but_its_program() -> None:
    names = discover("shop")
    assert set(names) == {
        "shop",
        "shop.tasks",
        "shop.views",
        "shop.mail",
        "shop.mail.tasks",
        "shop.mail.deep",
        "shop.mail.deep.more",
    }
    assert set(names) <= set(sys.modules)


def test_of_a_package_only_the_modules_of_one_name() -> None:
    assert discover("shop", only="tasks") == ["shop", "shop.mail.tasks", "shop.tasks"]
    assert "shop.views" not in sys.modules


def test_a_single_module_is_a_package_of_one() -> None:
    assert discover("single") == ["single"]
    assert sys.modules["single"].loaded


def test_an_app_discovers_several_and_knows_their_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("memory://")
    monkeypatch.setattr(sys, "tests_app", app, raising=False)
    (tmp_path / "single.py").write_text("import sys\n@sys.tests_app.task\ndef one(): ...\n")
    (tmp_path / "shop" / "mail" / "tasks.py").write_text("import sys\n@sys.tests_app.task\ndef two(): ...\n")
    assert app.discover("single", "shop", only="tasks") == ["single", "shop", "shop.mail.tasks", "shop.tasks"]
    assert set(app.tasks) == {"single.one", "shop.mail.tasks.two"}


@pytest.mark.parametrize("name", ["shup", "shop.male", "nowhere.at.all", "single.inner", "", ".shop", "shop."])
def test_a_package_that_is_not_there_is_told_in_a_sentence(name: str) -> None:
    with pytest.raises(BadValue, match="There is no package"):
        discover(name)


@pytest.mark.parametrize(("package", "error"), [("broken", ModuleNotFoundError), ("wrong", ZeroDivisionError)])
def test_an_error_inside_a_module_is_its_own(package: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        discover(package)


def test_the_modules_of_a_broken_neighbour_are_not_looked_at() -> None:
    assert discover("shop.mail.deep") == ["shop.mail.deep", "shop.mail.deep.more"]
    assert "shop.tasks" not in sys.modules
