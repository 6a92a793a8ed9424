"""Entry points for `ray job submit`, one module per job, which call the library.

Recipes are in `jobs/recipes/`. `nanotok_ray` imports nothing from here.
"""
