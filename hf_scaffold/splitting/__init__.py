"""Pre-tokenizers compiled to tables that native code scans by."""
