"""Submitting: a recipe goes to a cluster's job server, and is followed to its true end.

Takes a recipe's file and an address; gives what the job came to, as an exit code that tells the
truth. The loops know Ray by a protocol alone (`model.Jobs`); `ray_jobs` is Ray's side of it.
"""
