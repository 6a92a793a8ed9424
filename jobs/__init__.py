"""What `ray job submit` runs, one module a job: parses arguments and calls the library.

Recipes lie in `jobs/recipes/`. Nothing here is imported by `nanotok_ray`.
"""
