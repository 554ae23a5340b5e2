// Constants that more than one module knows. Registers, counters and events: ../README.md.
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

    localparam KEY_W = 80;  // {dst 32, src 32, tos 8, proto 8}

    // Counters of DROP_CNT
    localparam [4:0] DROP_BAD_FCS = 0;
    localparam [4:0] DROP_RUNT = 1;
    localparam [4:0] DROP_GIANT = 2;
    localparam [4:0] DROP_CSUM = 3;
    localparam [4:0] DROP_FOREIGN = 4;
    localparam [4:0] DROP_INPUT_FULL = 5;
    localparam [4:0] DROP_PEER_FULL = 6;
    localparam [4:0] DROP_HOST_FULL = 7;
    localparam [4:0] DROP_DISABLED = 8;
    localparam [4:0] DROP_NO_GRANT = 9;
    localparam [4:0] DROP_OVER_GRANT = 10;
    localparam [4:0] DROP_TIMEOUT = 11;
    localparam [4:0] DROP_MALFORMED = 12;
    localparam [4:0] DROP_TX_LENGTH = 13;
    localparam [4:0] DROP_BUS_ERROR = 14;
    localparam [4:0] DROP_VECTOR = 15;
    localparam [4:0] CNT_RECEIVED = 16;
    localparam [4:0] CNT_SENT = 17;
    localparam [4:0] CNT_GRANTS = 18;
    localparam [4:0] CNT_REPEATED = 19;
    localparam [4:0] CNT_BURSTS = 20;
    localparam [4:0] CNT_LOST_COMPLETIONS = 21;

    // Registers that more than one module decodes: the rules
    localparam [5:0] REG_ROUTE = 14;
    localparam [5:0] REG_CLASS = 20;
    localparam [5:0] REG_NEXTHOP_MAC = 44;

    localparam [1:0] DEST_HOST = 3;
endpackage
// verilator lint_on UNUSEDPARAM

`default_nettype wire
