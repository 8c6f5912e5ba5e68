"""The compiled core, of cython_core/: integers and buffers, no files, no policy."""
