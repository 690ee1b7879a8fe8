"""The memory engine. Read `engine.py`, then `admission.py` (how a job becomes ready, and what its end sets
free), then a file per verb. Nothing here does any I/O.
"""

from windlass.engines.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]
