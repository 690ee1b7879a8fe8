"""The conformance suite: what an engine is, as tests that anybody can run on an engine of their own.

```python
class TestMine(EngineConformance):
    @pytest.fixture
    def harness(self, tmp_path):
        yield from Harness.run(lambda limits: MyEngine(tmp_path, limits=limits))
```

Read `harness.py` first, then the topics in the order of a job's life: inserting, claiming, settling,
renewing, sweeping, noting; then what orders and stops jobs: lanes, keys, gates, flows; then what people do:
cancelling, searching, telling. No test looks into an engine: only the protocol is used, with a clock that stands still.
"""

from importlib import import_module

from windlass.core.errors import MissingExtra

for _package in ("pytest", "hypothesis"):
    try:
        import_module(_package)
    except ModuleNotFoundError as error:
        if error.name != _package:
            raise
        todo = "Run: pip install pytest hypothesis"
        raise MissingExtra(f"The conformance suite needs the package {_package}.", todo) from None

import pytest  # noqa: E402

TOPICS = (
    "inserting",
    "claiming",
    "settling",
    "renewing",
    "sweeping",
    "noting",
    "lanes",
    "keys",
    "gates",
    "flows",
    "cancelling",
    "searching",
    "telling",
)

# Without this a failed assert in an installed package says nothing but AssertionError.
pytest.register_assert_rewrite(f"{__name__}.harness", *(f"{__name__}.{topic}" for topic in TOPICS))

from windlass.testing.conformance.harness import Harness  # noqa: E402
from windlass.testing.conformance.suite import EngineConformance  # noqa: E402

__all__ = ["EngineConformance", "Harness"]
