"""The scheduler proper: everything asynchronous, and no decision that could be a pure function of `anarchon.model`.

The path of a slot: `planner` pops an instant, waits its jitter, `claimer` asks the store with a token made once,
`keeper` holds the lease from the sending of the request, `runner` starts the handler through the host and settles
it when the handler's own task or thread has ended, `recorder` stores the outcome in groups, the keeper drops the
lease. `survey` is the one periodic statement; recovery and hand-over come from it, `catch_up` runs at a start.
"""

from anarchon.engine.engine import Engine as Engine
from anarchon.engine.engine import EngineSnapshot as EngineSnapshot
from anarchon.engine.engine import RunningRun as RunningRun
from anarchon.engine.task import EngineTask as EngineTask
