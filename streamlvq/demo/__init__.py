"""`streamlvq demo`: simulated machines, a broker, real daemons, and a view of what they decide.

`run` is the command. `act` is the engine that plays an act; `plant` and `fleet` are the scripts of
the two acts and, started with `python -m`, their simulated machines.
"""
