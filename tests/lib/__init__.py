"""Shared by the tests: namespaces, raw ports, packets, and the router under test."""
