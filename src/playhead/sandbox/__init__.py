"""Real Kafka and real PostgreSQL for one machine, without Docker and without rights: see `Sandbox`.

Imports nothing of ours but the ground floor: errors, faults, jars, paths, runtime.
"""

from playhead.sandbox.sandbox import Endpoints, Sandbox, Status

__all__ = ["Endpoints", "Sandbox", "Status"]
