"""Scheduled tasks on every instance of a service, each slot run by exactly one of them, without a leader.

from anarchon import RunContext, Scheduler
from anarchon_sqlite import SQLiteBackend

scheduler = Scheduler(SQLiteBackend("sqlite:///app.db"))

@scheduler.every("sync", "5m", timeout_ms=60_000)
async def sync(ctx: RunContext) -> None: ...

scheduler.run()
"""

from ._version import __version__ as __version__
from .context import RunContext as RunContext
from .context import StopSignal as StopSignal
from .errors import AnarchonError as AnarchonError
from .errors import BackendError as BackendError
from .errors import BackendMisconfiguredError as BackendMisconfiguredError
from .errors import BackendUnavailableError as BackendUnavailableError
from .errors import ConfigurationError as ConfigurationError
from .errors import InvalidBaselineError as InvalidBaselineError
from .errors import InvalidCronError as InvalidCronError
from .errors import InvalidInstantError as InvalidInstantError
from .errors import InvalidIntervalError as InvalidIntervalError
from .errors import InvalidTimezoneError as InvalidTimezoneError
from .errors import LeaseLostError as LeaseLostError
from .errors import OutcomeUnknownError as OutcomeUnknownError
from .errors import StateError as StateError
from .errors import TaskExistsError as TaskExistsError
from .errors import TriggerConflictError as TriggerConflictError
from .errors import UnsafeOptionError as UnsafeOptionError
from .errors import UnsupportedOptionError as UnsupportedOptionError
from .handlers import Handler as Handler
from .listeners import Events as Events
from .model.events import BackendAway as BackendAway
from .model.events import BackendBack as BackendBack
from .model.events import ClaimLost as ClaimLost
from .model.events import ClockSkewed as ClockSkewed
from .model.events import Event as Event
from .model.events import HandlerEnded as HandlerEnded
from .model.events import HandlerOutlived as HandlerOutlived
from .model.events import LeaseLost as LeaseLost
from .model.events import ListenerFailed as ListenerFailed
from .model.events import LoopLagged as LoopLagged
from .model.events import ResultRefused as ResultRefused
from .model.events import RunEvent as RunEvent
from .model.events import RunFailed as RunFailed
from .model.events import RunHandedOver as RunHandedOver
from .model.events import RunInterrupted as RunInterrupted
from .model.events import RunRecovered as RunRecovered
from .model.events import RunStarted as RunStarted
from .model.events import RunSucceeded as RunSucceeded
from .model.events import SchedulerStarted as SchedulerStarted
from .model.events import SchedulerStopped as SchedulerStopped
from .model.events import SlotSkipped as SlotSkipped
from .model.run import Attempt as Attempt
from .model.run import Run as Run
from .protocol import Backend as Backend
from .protocol import ClaimBackend as ClaimBackend
from .protocol import LeaseBackend as LeaseBackend
from .registry import open_backend as open_backend
from .registry import open_lease_backend as open_lease_backend
from .scheduler import LeaseScheduler as LeaseScheduler
from .scheduler import Scheduler as Scheduler
from .status import SchedulerStatus as SchedulerStatus
from .status import TaskStatus as TaskStatus
from .tasks import Task as Task
from .times.cron import parse_cron as parse_cron
from .times.cron_next import next_cron_fire as next_cron_fire
from .times.cron_next import prev_cron_fire as prev_cron_fire
from .times.duration import ms as ms
from .times.grid import next_baseline_fire as next_baseline_fire
from .times.zones import AnarchonWarning as AnarchonWarning
