"""Jobs that stand still, in place of those of the project: for PYTHONPATH of a submitted job."""
