"""Values and pure transitions: what a slot, a run, a lease and an option are, and how each may change.

Nothing here reads a clock, waits or talks to a store. The decisions that a lease backend has to make in one
atomic step are functions of this package (`leasing`), so that they can be read, tested and mutated in one place.
"""
