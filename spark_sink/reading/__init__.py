"""Reading topics: options, plan, lookups in the driver, and what executors read."""
