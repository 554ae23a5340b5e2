// Constants that several modules use. ../registers.py writes registers and counters.
`default_nettype none

// No module needs them all.
// verilator lint_off UNUSEDPARAM
package hero_pkg;
    // Meta of a received frame: offsets of its fields. Addresses of IP and the key are numbers (first octet
    // in the highest bits); MAC addresses have their first octet in bits 7:0, as the frame and the registers.
    localparam META_LEN = 0;  // 16, octets without FCS
    localparam META_BAD_FCS = 16;
    localparam META_RUNT = 17;
    localparam META_GIANT = 18;
    localparam META_OVERFLOW = 19;
    localparam META_IP4 = 20;
    localparam META_OPTIONS = 21;
    localparam META_CSUM_OK = 22;
    localparam META_MCAST = 23;
    localparam META_TTL = 24;  // 8
    localparam META_TOS = 32;  // 8
    localparam META_PROTO = 40;  // 8
    localparam META_SRC = 48;  // 32
    localparam META_DST = 80;  // 32
    localparam META_DMAC = 112;  // 48
    localparam META_W = 160;
    // Cards with routes of IPv6 have these, too. A frame of IPv6 has hop limit, traffic class, next header in TTL, TOS, PROTO, the
    // lower half of its destination in SRC and DST, and OPTIONS set if only the host knows what to do with it.
    localparam META_IP6 = 160;
    localparam META_DST6 = 161;  // 64, the upper half of the destination
    localparam META6_W = 225;

    localparam KEY_W = 80;  // {dst 32, src 32, tos 8, proto 8}, as they are in the meta

    // begin: registers
    // Registers by number
    localparam [5:0] REG_ID = 0;
    localparam [5:0] REG_CMD = 1;
    localparam [5:0] REG_STATUS = 2;
    localparam [5:0] REG_MAC_LOW = 3;
    localparam [5:0] REG_MAC_HIGH = 4;
    localparam [5:0] REG_IRQ_UNMASKED = 5;
    localparam [5:0] REG_IRQ_MASK = 6;
    localparam [5:0] REG_IRQ_MASKED = 7;
    localparam [5:0] REG_RXLO_DESC = 8;
    localparam [5:0] REG_RXHI_DESC = 9;
    localparam [5:0] REG_TX_LEN = 10;
    localparam [5:0] REG_TX_DESC = 11;
    localparam [5:0] REG_LEVELS = 12;
    localparam [5:0] REG_CPL_BASE = 13;
    localparam [5:0] REG_ROUTE = 14;
    localparam [5:0] REG_CLASS = 20;
    localparam [5:0] REG_NEXTHOP_MAC = 44;
    localparam [5:0] REG_PEER_BASE = 50;
    localparam [5:0] REG_REQ_IN = 53;
    localparam [5:0] REG_RSP_IN = 56;
    localparam [5:0] REG_FWD_CNT = 59;
    localparam [5:0] REG_FWD_HOST = 62;
    localparam [5:0] REG_DROP_CNT = 63;
    localparam [5:0] REG_ROUTE6_ADDRESS = 14;
    localparam [5:0] REG_ROUTE6_RULE = 18;
    localparam [5:0] REG_ROUTE6_MAC = 44;
    localparam [4:0] ROUTE6_BANK = 24;
    localparam [31:0] ID_VALUE = 32'h4845524f;
    localparam [15:0] VERSION = 1;

    // Of each register the bits that keep what is written, and whether they are ones after reset
    localparam [64*32-1:0] REG_BITS = {
        32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000,
        32'h00000000, 32'h00000000, 32'h00000000, 32'hffffffff, 32'hffffffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff,
        32'h0000ffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff, 32'hffffffff, 32'h0000ffff,
        32'hffffffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff, 32'hffffffff,
        32'h0000ffff, 32'hffffffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff, 32'hffffffff, 32'h0000ffff, 32'hffffffff,
        32'hffffffff, 32'h0000ffff, 32'hffffffff, 32'hffffffff, 32'hffffffff, 32'hffffffff, 32'hffffffff, 32'hffffffff,
        32'hffffffff, 32'hffffffff, 32'hffffe000, 32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000, 32'h00000000,
        32'h00000000, 32'h000000ff, 32'h00000000, 32'h0003ffff, 32'hffffffff, 32'h00000000, 32'h00001f1e, 32'h00000000
    };
    localparam [63:0] REG_ONES = 64'h00000e38e38a8000;

    // Events, in IRQ_UNMASKED, IRQ_MASK and IRQ_MASKED
    localparam [7:0] IRQ_RXLO = 8'h01;
    localparam [7:0] IRQ_RXHI = 8'h02;
    localparam [7:0] IRQ_TX = 8'h04;
    localparam [7:0] IRQ_RXLO_EMPTY = 8'h08;
    localparam [7:0] IRQ_RXHI_EMPTY = 8'h10;
    localparam [7:0] IRQ_FAULT = 8'h20;
    localparam [7:0] IRQ_BUS = 8'h40;
    localparam [7:0] IRQ_DROP = 8'h80;

    // Counters of DROP_CNT
    localparam COUNTERS = 22;
    localparam [4:0] COUNT_BAD_FCS = 0;
    localparam [4:0] COUNT_RUNT = 1;
    localparam [4:0] COUNT_GIANT = 2;
    localparam [4:0] COUNT_BAD_CHECKSUM = 3;
    localparam [4:0] COUNT_FOREIGN_MAC = 4;
    localparam [4:0] COUNT_INPUT_FULL = 5;
    localparam [4:0] COUNT_PEER_FULL = 6;
    localparam [4:0] COUNT_HOST_FULL = 7;
    localparam [4:0] COUNT_DISABLED = 8;
    localparam [4:0] COUNT_NO_GRANT = 9;
    localparam [4:0] COUNT_OVER_GRANT = 10;
    localparam [4:0] COUNT_BURST_TIMEOUT = 11;
    localparam [4:0] COUNT_MALFORMED = 12;
    localparam [4:0] COUNT_TX_LENGTH = 13;
    localparam [4:0] COUNT_BUS_ERROR = 14;
    localparam [4:0] COUNT_VECTOR_REFUSED = 15;
    localparam [4:0] COUNT_RECEIVED = 16;
    localparam [4:0] COUNT_SENT = 17;
    localparam [4:0] COUNT_GRANTS = 18;
    localparam [4:0] COUNT_REPEATED = 19;
    localparam [4:0] COUNT_BURSTS = 20;
    localparam [4:0] COUNT_LOST_COMPLETIONS = 21;
    // end: registers

    localparam [1:0] DEST_HOST = 3;
endpackage
// verilator lint_on UNUSEDPARAM

`default_nettype wire
