/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* An XDP program that is not Bora's: it passes everything. */
__attribute__((section("xdp"), used)) int foreign(void *context)
{
	return 2; /* XDP_PASS */
}

char _license[] __attribute__((section("license"), used)) = "GPL";
