"""Verification: is the output what its records say, and do its records cover the plan?

Takes an output folder (and, before it is published, the manifest to be), gives a list of problems.
Repairs nothing: the job does, when it is run again.
"""

from nanotok_ray.verify.output import Verification, verify_output

__all__ = ["Verification", "verify_output"]
