"""Real Kafka and real PostgreSQL on one machine, without Docker or special rights; see `Sandbox`.

Imports only basic modules of ours: errors, faults, jars, paths, runtime.
"""

from playhead.sandbox.sandbox import Endpoints, Sandbox, Status

__all__ = ["Endpoints", "Sandbox", "Status"]
