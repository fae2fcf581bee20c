# SPDX-License-Identifier: Apache-2.0
"""Annotations for Tutti: scopes, instants, counters and training steps on this host's timeline.

    import tutti

    for n in range(steps):
        with tutti.step(n):
            with tutti.scope("load batch"):
                load()
            tutti.counter("loss", train())

A scope takes about a microsecond. Records go to a ring in shared memory, which the agent of the host finds and reads, also
after the process was killed; without an agent nothing happens to them. TUTTI_ANNOTATIONS=off in the environment turns
annotations off. Apart from capture(), nothing here raises if there is no agent or no memory.

Scopes belong to their thread and nest. Coroutines, which interleave on one thread, use span(): spans may overlap.

    with tutti.capture(hosts="all", duration=30):  # by the aggregator, through the agent's local socket
        evaluate()
"""
from tutti.local import AgentError, Capture, capture
from tutti.ring import counter, instant, scope, set_enabled, span, step

__all__ = ["AgentError", "Capture", "capture", "counter", "instant", "scope", "set_enabled", "span", "step"]
__version__ = "0.1.0"
