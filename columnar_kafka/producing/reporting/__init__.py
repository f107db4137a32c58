"""From acknowledgements to the reports of records."""
