/* The four-card HERO system (hero_system) in virtual time, as a library without other dependencies.
 *
 * One thread at a time may use a `hero`. Time passes only in `hero_run`, `hero_read` and
 * `hero_write`. Errors are return values; no call aborts. */
#ifndef HERO_H
#define HERO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HERO_ABI 3 /* what hero_abi() returns; changes with this file */
#define HERO_CARDS 4

typedef struct hero hero;

uint32_t hero_abi(void);
/* A new system, after its hardware reset; NULL if there is no memory. */
hero *hero_new(void);
void hero_free(hero *h);
/* Parameters of the build: "bus" (0 pcix, 1 xbar), "setup", "routes", "sys_mhz"; -1: unknown name. */
int64_t hero_parameter(const hero *h, const char *name);

/* Host memory, 64 MiB: bus address 0 is its first octet. Valid until hero_free. A read takes 8 cycles to its
 * first word, as DRAM does; bus addresses above it answer DECERR. */
uint8_t *hero_memory(hero *h, size_t *octets);

/* A host whose memory is elsewhere. `read` and `write` are called for each word of a card's transaction, in order, within
 * the calls that let time pass, with the number of the card and a bus address below 0x8000_0000 and divisible by 8; bit n
 * of `strobes` is octet n of the word, which is little endian. They return 0, or something else: DECERR. They must not call
 * functions of this file. */
typedef struct {
    void *context;
    int (*read)(void *context, unsigned card, uint32_t address, uint64_t *word);
    int (*write)(void *context, unsigned card, uint32_t address, uint64_t word, uint8_t strobes);
} hero_host;
/* Takes the place of the memory of hero_memory from now on; NULL: that memory again. `host` is copied. */
void hero_set_host(hero *h, const hero_host *host);

/* Virtual time since the start, ns. */
uint64_t hero_now(const hero *h);
/* Lets `ns` of virtual time pass. */
void hero_run(hero *h, uint64_t ns);
/* As hero_run, but returns as soon as an interrupt line of `cards` (one bit per card) is up.
 * Returns all lines that are up. */
uint32_t hero_run_until_irq(hero *h, uint64_t ns, uint32_t cards);
/* Interrupt lines, one bit per card. */
uint32_t hero_irq(const hero *h);

/* Registers by number (0-63), through the card's AXI4-Lite port: a few cycles of virtual time pass.
 * A card or register that does not exist, or a card that does not answer, reads as 0xFFFFFFFF. */
uint32_t hero_read(hero *h, unsigned card, unsigned reg);
void hero_write(hero *h, unsigned card, unsigned reg, uint32_t value);

/* Whether a card's receiver sees a link; it does at first. Frames pass all the same. */
void hero_set_link(hero *h, unsigned card, int up);

/* Faults of a frame on the wire. */
#define HERO_BAD_FCS 1u
#define HERO_RX_ER 2u
#define HERO_NO_PAD 4u /* do not pad to 60 octets */

/* Queues a frame (without preamble and FCS) for a card's receiver; its preamble begins at `at` ns, or
 * as soon as the line is free with the gap of 12 octets (8 ns an octet). Returns 0, or -1: bad card, empty, longer
 * than 9216, or more than 4096 queued. */
int hero_receive(hero *h, unsigned card, const uint8_t *frame, size_t octets, uint64_t at, unsigned faults);
/* Frames queued for a card's receiver that have not arrived completely. */
size_t hero_arriving(const hero *h, unsigned card);
/* The next frame a card sent, without preamble and FCS: its length, or -1: none (or it has a bad FCS: -2,
 * or is longer than `room`: -3; both are taken away). `first` and `last`: when its first octet after the
 * preamble, and the last of its FCS, went onto the wire, ns. Frames wait here without limit. */
long hero_transmitted(hero *h, unsigned card, uint8_t *frame, size_t room, uint64_t *first, uint64_t *last);

#ifdef __cplusplus
}
#endif
#endif
