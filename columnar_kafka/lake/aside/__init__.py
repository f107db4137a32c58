"""Messages that do not land as they are: decoded, or set aside as dead letters."""
