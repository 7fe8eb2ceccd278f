"""The acceptance scenarios of membership, each a test named by its number.

Simulated unless a name says otherwise: `lan`, 2 +- 1 ms, no loss. `make test` takes a few seeds of
each, `make thorough` more where they are dear, `make long` all of them.
"""
