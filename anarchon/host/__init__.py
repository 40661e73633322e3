"""Where the engine and the handlers run. Knows nothing of slots, claims or leases.

`ThreadHost` is the real one: the engine on a loop and daemon thread of its own, `async def` handlers on the
application's loop, plain `def` handlers on daemon threads. `InlineHost` puts everything on one virtual-time loop.
"""
