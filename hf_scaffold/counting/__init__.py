"""From text to counts: how often each pre-token occurs."""
