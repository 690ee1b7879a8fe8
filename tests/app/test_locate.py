"""An app by its name: found, or told in a sentence."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from windlass import App
from windlass.app.locate import locate
from windlass.core.errors import BadValue


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("shop_for_locate")
    vars(module).update(app=App("memory://"), number=3)
    monkeypatch.setitem(sys.modules, "shop_for_locate", module)
    return module


def test_an_app_is_found_by_module_and_name(shop: ModuleType) -> None:
    assert locate("shop_for_locate:app") is shop.app
    assert locate(" shop_for_locate:app ") is shop.app
    assert locate("shop_for_locate") is shop.app


def test_of_several_apps_one_must_be_named(shop: ModuleType) -> None:
    vars(shop).update(same=shop.app)
    assert locate("shop_for_locate") is shop.app
    vars(shop).update(other=App("memory://"))
    with pytest.raises(
        BadValue, match=r"several apps in shop_for_locate: app, same, other\. Write shop_for_locate:app"
    ):
        locate("shop_for_locate")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("json", r"There is no app in json\. Make one there"),
        ("no_such_shop.py", r"There is no file 'no_such_shop\.py'\. Write a file or a module"),
        (":app", "does not name an app"),
        ("shop_for_locate:", "does not name an app"),
        (
            "no_such_shop.tasks:app",
            r"There is no module 'no_such_shop', in which .* is looked for\. Check its spelling",
        ),
        ("shop_for_locate:apq", r"has no 'apq'\. Did you mean shop_for_locate:app\?"),
        ("shop_for_locate:queue", r"has no 'queue'\. It has: app\."),
        ("shop_for_locate:number", r"shop_for_locate:number is a int, not an App\. Write shop_for_locate:app\."),
        ("json:dumps", r"json:dumps is a function, not an App\. Name a windlass\.App\."),
    ],
)
def test_a_name_that_leads_to_no_app_is_told(name: str, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        locate(name)


def test_an_error_inside_the_module_is_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("code")
    (folder / "broken_for_locate.py").write_text("import no_such_dependency\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        locate("broken_for_locate:app")
