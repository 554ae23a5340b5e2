"""What networks of namespaces with one Bora have in common."""

from lib.netns import Namespace


class Testbed:
    """Namespaces, and `bora`, which a subclass may start in one of them."""

    def __init__(self):
        self.namespaces, self.bora = [], None

    def _namespace(self, role):
        """A new one, whose IPv6 addresses can be used at once."""
        namespace = Namespace(role)
        self.namespaces.append(namespace)
        namespace.set_sysctl("net/ipv6/conf/default/accept_dad", 0)
        return namespace

    def _router(self, role="r"):
        """A new one that forwards."""
        router = self._namespace(role)
        for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            router.set_sysctl(f"net/{key}", 1)
        return router

    def close(self):
        """Stops Bora and removes everything."""
        try:
            if self.bora:
                self.bora.stop()
        finally:
            for namespace in self.namespaces:
                namespace.close()
