"""`anarchon demo`: three processes share a schedule on one file, one is killed, and every slot is accounted for.

`plan` says what is run, `instance` is one of the processes, `play` starts, kills and ends them, `stage` shows it,
`evidence` reads what the store and the handlers have written, and `check` compares the two.
"""
