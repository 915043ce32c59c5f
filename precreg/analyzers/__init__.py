"""Measurements that installed packages add: found by name, called with whole arrays or chunk by chunk, and checked."""
