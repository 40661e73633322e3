"""Schedules as pure functions from time to slots: no clock, no event loop, no I/O but reading zone files.

Inside, instants and durations are `int` milliseconds and instants count from the Unix epoch, in UTC.
"""
