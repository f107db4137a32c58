"""Records as columns, with the native core and without it."""
