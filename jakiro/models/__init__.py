"""What makes any Hugging Face model a target, unmodified: fetched, read, checked, quick in passes over few rows."""
