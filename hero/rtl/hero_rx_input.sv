// Converts octets to words, and computes a frame's meta: its length, verdicts and header fields. The meta comes with
// `wr_commit` after the last word, or with `wr_abort` for a bad frame.
`default_nettype none

module hero_rx_input #(
    parameter MTU = 1500,  // octets of a packet: a frame has 14 more, with a VLAN tag 18
    parameter ROUTES6 = 0  // 0: no IPv6
) (
    input  wire                        clk,
    input  wire                        rst,
    // Frames without FCS, `tuser` with the last octet: bad. `tready` is low for two cycles after the last octet, during
    // Ethernet's gap and preamble.
    input  wire [                 7:0] s_axis_tdata,
    input  wire                        s_axis_tvalid,
    output wire                        s_axis_tready,
    input  wire                        s_axis_tlast,
    input  wire                        s_axis_tuser,
    output wire                        wr_en,
    output wire [                63:0] wr_data,
    output reg                         wr_commit,
    output reg                         wr_abort,
    output wire [(ROUTES6 > 0 ? hero_pkg::META6_W : hero_pkg::META_W)-1:0] wr_meta
);
    localparam [15:0] MIN_OCTETS = 60, MAX_OCTETS = MTU[15:0] + 16'd14, MAX_TAGGED = MTU[15:0] + 16'd18;
    localparam [15:0] ETHERTYPE_IP4 = 16'h0800, ETHERTYPE_IP6 = 16'h86dd, ETHERTYPE_VLAN = 16'h8100;

    // Octets to words. Counters saturate in endless frames.
    reg [63:0] word;
    reg [15:0] octets;  // before this one
    reg word_valid, word_last, word_bad, frame_end;
    reg [15:0] word_octets;  // of the frame up to and with this word
    reg [7:0] word_index;  // of `word`; 255: 255 or more
    reg word_fits;  // the longest frame has it
    wire octet = s_axis_tvalid && s_axis_tready;
    wire [2:0] lane = octets[2:0];
    wire [15:0] octets_next = &octets ? octets : octets + 1'b1;
    assign s_axis_tready = !(word_valid && word_last) && !frame_end;

    always @(posedge clk)
        if (rst) begin
            octets <= 0;
            word_valid <= 0;
            frame_end <= 0;
        end else begin
            if (octet) octets <= s_axis_tlast ? 16'd0 : octets_next;
            word_valid <= octet && (lane == 7 || s_axis_tlast);
            frame_end <= word_valid && word_last;
        end

    always @(posedge clk)
        if (octet) begin
            if (lane == 0) word <= {56'b0, s_axis_tdata};
            else word[8*lane+:8] <= s_axis_tdata;
            word_last <= s_axis_tlast;
            word_bad <= s_axis_tuser;
            word_octets <= octets_next;
            word_index <= |octets[15:11] ? 8'd255 : octets[10:3];
            word_fits <= {octets[15:3], 3'b0} < MAX_TAGGED;
        end

    assign wr_en = word_valid && word_fits;
    assign wr_data = word;

    reg [hero_pkg::META_W-1:0] meta;

    // Header fields, converted from network order to numbers, except for the MAC address
    reg [47:0] dmac;
    reg [15:0] ethertype, total_length;
    reg [3:0] version, ihl;
    reg [7:0] tos, ttl, proto;
    reg [31:0] src, dst;
    reg [16:0] needed_octets;
    reg holds_header;
    always @(posedge clk) begin
        if (word_valid)
            case (word_index)
                0: dmac <= word[47:0];
                1: begin
                    ethertype <= {word[39:32], word[47:40]};
                    {version, ihl} <= word[55:48];
                    tos <= word[63:56];
                end
                2: begin
                    total_length <= {word[7:0], word[15:8]};
                    ttl <= word[55:48];
                    proto <= word[63:56];
                end
                3: begin
                    src <= {word[23:16], word[31:24], word[39:32], word[47:40]};
                    dst[31:16] <= {word[55:48], word[63:56]};
                end
                4: dst[15:0] <= {word[7:0], word[15:8]};
                default: ;
            endcase
        needed_octets <= {1'b0, total_length} + 17'd14;
        holds_header <= total_length >= {10'b0, ihl, 2'b0};
    end

    wire ip6, special6;
    wire [7:0] hop_limit, next_header;
    wire [127:0] dst6;
    generate
        if (ROUTES6 > 0) begin : g_ip6
            wire fits;
            hero_rx_ip6 rx_ip6 (
                .clk(clk), .word_valid(word_valid), .word(word), .word_index(word_index), .octets(word_octets),
                .fits(fits), .special(special6), .hop_limit(hop_limit), .next_header(next_header), .dst(dst6)
            );
            assign ip6 = ethertype == ETHERTYPE_IP6 && version == 6 && fits;
            reg [hero_pkg::META6_W-hero_pkg::META_W-1:0] more;
            always @(posedge clk) more <= {dst6[127:64], ip6};
            assign wr_meta = {more, meta};
        end else begin : g_no_ip6
            assign {ip6, special6, hop_limit, next_header, dst6} = 146'd0;
            assign wr_meta = meta;
            wire unused = &{1'b0, ETHERTYPE_IP6, dst6[127:64]};
        end
    endgenerate

    // Header checksum: 16 bits every second cycle; the carry is added with the next (RFC 1071)
    reg [7:0] even_octet;
    reg [15:0] pair, sum;
    reg pair_valid, pair_first, carry;
    reg [4:0] pairs_left;
    wire csum_ok = carry ? sum == 16'hfffe : sum == 16'hffff;
    always @(posedge clk) begin
        if (octet) even_octet <= s_axis_tdata;
        pair <= {even_octet, s_axis_tdata};
        pair_valid <= octet && lane[0];
        pair_first <= octets == 16'd15;
        if (pair_valid && pair_first) begin
            {carry, sum} <= {1'b0, pair};
            pairs_left <= {pair[11:8], 1'b0} - 5'd1;
        end else if (pair_valid && pairs_left != 0) begin
            {carry, sum} <= {1'b0, sum} + {1'b0, pair} + {16'b0, carry};
            pairs_left <= pairs_left - 5'd1;
        end
    end

    // Verdicts, the cycle after the last word
    wire [15:0] max_octets = ethertype == ETHERTYPE_VLAN ? MAX_TAGGED : MAX_OCTETS;
    wire runt = word_octets < MIN_OCTETS;
    wire giant = word_octets > max_octets && !runt;
    wire ip4 = ethertype == ETHERTYPE_IP4 && version == 4 && ihl >= 5 && holds_header && needed_octets <= {1'b0, word_octets};
    always @(posedge clk) begin
        wr_commit <= frame_end && !rst && !word_bad && !runt && !giant;
        wr_abort <= frame_end && !rst && (word_bad || runt || giant);
        meta <= 0;
        meta[hero_pkg::META_LEN+:16] <= word_octets;
        meta[hero_pkg::META_BAD_FCS] <= word_bad;
        meta[hero_pkg::META_RUNT] <= runt;
        meta[hero_pkg::META_GIANT] <= giant;
        meta[hero_pkg::META_IP4] <= ip4;
        meta[hero_pkg::META_OPTIONS] <= ip6 ? special6 : ihl > 5;
        meta[hero_pkg::META_CSUM_OK] <= csum_ok;
        meta[hero_pkg::META_MCAST] <= dmac[0];
        meta[hero_pkg::META_TTL+:8] <= ip6 ? hop_limit : ttl;
        meta[hero_pkg::META_TOS+:8] <= ip6 ? {ihl, tos[7:4]} : tos;
        meta[hero_pkg::META_PROTO+:8] <= ip6 ? next_header : proto;
        meta[hero_pkg::META_SRC+:64] <= ip6 ? dst6[63:0] : {dst, src};
        meta[hero_pkg::META_DMAC+:48] <= dmac;
    end
endmodule

`default_nettype wire
