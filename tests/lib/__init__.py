"""What the tests share: namespaces, raw ports, packets, and the router under test."""
