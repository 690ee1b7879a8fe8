"""The whole suite as one class: give it a `harness` fixture, and an engine is shown to be one, or not."""

from __future__ import annotations

from windlass.testing.conformance.cancelling import Cancelling
from windlass.testing.conformance.claiming import Claiming
from windlass.testing.conformance.flows import Flows
from windlass.testing.conformance.gates import Gates
from windlass.testing.conformance.inserting import Inserting
from windlass.testing.conformance.keys import Keys
from windlass.testing.conformance.lanes import Lanes
from windlass.testing.conformance.noting import Noting
from windlass.testing.conformance.refusing import Refusing
from windlass.testing.conformance.renewing import Renewing
from windlass.testing.conformance.searching import Searching
from windlass.testing.conformance.settling import Settling
from windlass.testing.conformance.sweeping import Sweeping
from windlass.testing.conformance.telling import Telling


class EngineConformance(
    Inserting,
    Claiming,
    Settling,
    Renewing,
    Sweeping,
    Noting,
    Lanes,
    Keys,
    Gates,
    Flows,
    Cancelling,
    Searching,
    Telling,
    Refusing,
):
    """Everything an engine must do, by topic."""
