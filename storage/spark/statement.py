"""A statement on Spark: its job group, its settings, and whether it was cancelled.

A thread is *bound* to a statement before it works for it. The Java thread behind it then carries the job group, by
which exactly this statement's jobs are cancelled, and the SQL settings, which tasks read from there. A statement also
has a pool of Spark's scheduler nearly to itself: pools share the cores, while within one jobs wait for those before
them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError

from catalog.errors import SluiceError, SqlState
from storage.spark.jvm import SparkJvm
from storage.spark.small_query import SETTINGS, WEIGHED, Weight

_numbers: Final = itertools.count(1)
_bound = threading.local()
_pools: Final = itertools.cycle([f"pool-{number}" for number in range(64)])


def _input_rows(store: JavaObject, stage: int) -> int:
    """Return how many rows of files a stage has read; 0 if Spark does not count it yet."""
    try:
        return int(store.lastStageAttempt(stage).inputRecords())
    except Py4JJavaError:
        return 0


def _nobody() -> None:
    return


def cancelled() -> SluiceError:
    """Return the error of a statement that was cancelled without another reason."""
    return SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request")


class Statement:
    """A running statement. `tag` is the caller's name for it; `group` its Spark job group, unique for ever.

    A tag is "role/session" or "role/session/cursor", or one word for work of the gateway's own. Spark's UI shows
    `description` for its jobs. `stopped` is called when it was stopped, perhaps repeatedly: a paused statement has no
    thread to learn of it.
    """

    def __init__(self, tag: str, description: str = "") -> None:
        self.tag = tag
        self.role = tag.partition("/")[0]
        self.session = "/".join(tag.split("/", 2)[:2])
        self.description = f"{tag} {description}".rstrip()
        self.group = f"{tag}/{next(_numbers)}"
        self.stopped: Callable[[], object] = _nobody
        self.is_eager = False  # as a query of it
        self._lock = threading.Lock()
        self._failure: SluiceError | None = None
        self._jvm: SparkJvm | None = None
        self._weight: Weight | None = None

    def stop(self, failure: SluiceError | None = None) -> None:
        """Stop its jobs; it fails with `failure` (57014 if none is given). Does not wait for its end.

        Any thread may call it, and more than once: the first reason stays.
        """
        with self._lock:
            if self._failure is None:
                self._failure = failure or cancelled()
            jvm = self._jvm
        self.stopped()
        if jvm is not None and jvm.alive:
            jvm.context.cancelJobGroupAndFutureJobs(self.group)

    def rows_read(self) -> int:
        """Return how many rows its jobs have read of files so far, as far as Spark can say. Blocking."""
        jvm = self._jvm
        if jvm is None or not jvm.alive:
            return 0
        try:
            tracker, store = jvm.context.statusTracker(), jvm.context.statusStore()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
            stages = {int(stage) for job in jobs if job.isDefined() for stage in job.get().stageIds()}
            return sum(_input_rows(store, stage) for stage in stages)
        except (Py4JError, OSError):
            return 0  # a JVM that has died unnoticed

    @property
    def failure(self) -> SluiceError | None:
        """Why it was cancelled, or None."""
        return self._failure

    def check(self) -> None:
        """Raise if the statement was cancelled."""
        if self._failure is not None:
            raise self._failure

    def bind(self, jvm: SparkJvm, time_zone: str) -> None:
        """Make the calling thread work for this statement until it is bound to another."""
        with self._lock:
            self._jvm = jvm
        self.check()
        context = jvm.context
        if getattr(_bound, "jvm", None) is not jvm:
            for name, value in jvm.settings.items():
                if name.startswith("spark.sql."):
                    context.setLocalProperty(name, value)
            context.setLocalProperty("spark.scheduler.pool", next(_pools))
            _bound.jvm, _bound.weight = jvm, Weight.USUAL
        if self._weight is not None:
            self._set_weight(jvm, self._weight)
        context.setLocalProperty("spark.sql.session.timeZone", time_zone)
        context.setJobGroup(self.group, self.description, True)

    @property
    def is_light(self) -> bool:
        """Whether all its work is light (see storage.spark.small_query)."""
        return self._weight is Weight.LIGHT

    def weigh(self, jvm: SparkJvm, weight: Weight) -> None:
        """Set the weight of its work from now on, in the calling thread and in those bound later."""
        self._weight = weight
        self._set_weight(jvm, weight)

    def _set_weight(self, jvm: SparkJvm, weight: Weight) -> None:
        if _bound.weight is not weight:
            for name in WEIGHED:
                jvm.context.setLocalProperty(name, SETTINGS[weight].get(name, jvm.settings.get(name)))
            _bound.weight = weight
