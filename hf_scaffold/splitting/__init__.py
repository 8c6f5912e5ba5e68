"""Normalizers and pre-tokenizers compiled for native code: as steps, and as tables that it scans by."""
