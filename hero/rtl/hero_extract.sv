// Takes each received frame out of the input FIFO: verdict, destination, then enqueue (with the next hop's MAC, TTL and
// checksum on the fast path) or a counted drop. It takes about 25 cycles and one for each word; the shortest frames are 67
// cycles apart.
`default_nettype none

module hero_extract #(
    parameter ROUTES6 = 0  // 0: no IPv6
) (
    input  wire                        clk,
    input  wire                        rst,
    input  wire                        rx_enable,
    input  wire                        fast_enable,
    input  wire                        promiscuous,
    input  wire [                47:0] mac,
    // hero_cdc_fifo
    input  wire                        rd_meta_valid,
    input  wire [(ROUTES6 > 0 ? hero_pkg::META6_W : hero_pkg::META_W)-1:0] rd_meta,
    output wire                        rd_meta_pop,
    input  wire                        rd_valid,
    input  wire [                63:0] rd_data,
    input  wire                        rd_last,
    output wire                        rd_en,
    // hero_match
    output wire                        match_start,
    output wire [ hero_pkg::KEY_W-1:0] match_key,
    output reg                         match_route_ok,
    output wire                        match_ip6,
    output wire [                63:0] match_dst6,
    input  wire                        match_done,
    input  wire [                 1:0] match_dest,
    input  wire [                 5:0] match_route,
    input  wire                        match_prio,
    input  wire [                47:0] match_nh_mac,
    // hero_voq
    output wire [                 2:0] enq_queue,
    output wire [                15:0] enq_len,
    input  wire                        enq_room,
    output reg                         enq_valid,
    output reg  [                63:0] enq_data,
    output reg                         enq_last,
    // Pulses: exactly one for each frame
    output reg                         fwd,
    output wire [                 1:0] fwd_dest,
    output wire [                 5:0] fwd_route,
    output reg                         drop,
    output reg  [                 4:0] drop_reason
);
    localparam [2:0] IDLE = 0, VERDICT = 1, START = 2, MATCH = 3, ROOM = 4, FORWARD = 5, DISCARD = 6, POP = 7;

    wire [15:0] len = rd_meta[hero_pkg::META_LEN+:16];
    wire overflow = rd_meta[hero_pkg::META_OVERFLOW];
    wire bad_fcs = rd_meta[hero_pkg::META_BAD_FCS];
    wire runt = rd_meta[hero_pkg::META_RUNT];
    wire giant = rd_meta[hero_pkg::META_GIANT];
    wire ip4 = rd_meta[hero_pkg::META_IP4];
    wire ip6;
    generate
        if (ROUTES6 > 0) begin : g_ip6
            assign ip6 = rd_meta[hero_pkg::META_IP6];
            assign match_dst6 = rd_meta[hero_pkg::META_DST6+:64];
        end else begin : g_no_ip6
            assign ip6 = 1'b0;
            assign match_dst6 = 64'd0;
        end
    endgenerate
    assign match_ip6 = ip6;
    wire ip = ip4 || ip6;
    wire no_words = overflow || bad_fcs || runt || giant;
    wire taken_last = rd_valid && rd_en && rd_last;

    reg [2:0] state;
    reg own;
    reg [4:0] reason;
    assign rd_en = state == FORWARD || state == DISCARD;
    assign rd_meta_pop = state == POP;

    // Verdicts, in the order of ../README.md
    reg refused;
    always @* begin
        refused = 1;
        reason = hero_pkg::COUNT_DISABLED;
        if (!rx_enable) reason = hero_pkg::COUNT_DISABLED;
        else if (overflow) reason = hero_pkg::COUNT_INPUT_FULL;
        else if (bad_fcs) reason = hero_pkg::COUNT_BAD_FCS;
        else if (runt) reason = hero_pkg::COUNT_RUNT;
        else if (giant) reason = hero_pkg::COUNT_GIANT;
        else if (ip4 && !rd_meta[hero_pkg::META_CSUM_OK]) reason = hero_pkg::COUNT_BAD_CHECKSUM;
        else if (!own && !rd_meta[hero_pkg::META_MCAST] && !promiscuous) reason = hero_pkg::COUNT_FOREIGN_MAC;
        else refused = 0;
    end
    wire no_room = state == ROOM && !enq_room;

    always @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (rd_meta_valid) state <= VERDICT;
                VERDICT: state <= !refused ? START : no_words ? POP : DISCARD;
                START: state <= MATCH;
                MATCH: if (match_done) state <= ROOM;
                ROOM: state <= enq_room ? FORWARD : DISCARD;
                FORWARD, DISCARD: if (taken_last) state <= POP;
                default: state <= IDLE;
            endcase

    always @(posedge clk) begin
        own <= rd_meta[hero_pkg::META_DMAC+:48] == mac;
        if (state == VERDICT)
            match_route_ok <= fast_enable && own && ip && !rd_meta[hero_pkg::META_OPTIONS] && rd_meta[hero_pkg::META_TTL+:8] > 1;
        fwd <= !rst && state == FORWARD && taken_last;
        drop <= !rst && (state == VERDICT && refused || no_room);
        if (state == VERDICT) drop_reason <= reason;
        else if (no_room) drop_reason <= to_host ? hero_pkg::COUNT_HOST_FULL : hero_pkg::COUNT_PEER_FULL;
    end

    assign match_start = state == START;
    assign match_key = {
        rd_meta[hero_pkg::META_DST+:32], rd_meta[hero_pkg::META_SRC+:32], rd_meta[hero_pkg::META_TOS+:8], rd_meta[hero_pkg::META_PROTO+:8]
    };
    wire to_host = match_dest == hero_pkg::DEST_HOST;
    assign enq_queue = {match_dest, match_prio && ip};  // only IP has classes
    assign enq_len = len;
    assign fwd_dest = match_dest;
    assign fwd_route = match_route;

    // Edit of fast frames: octets 0-5 destination MAC, and of IPv6 21 hop limit, of IPv4 22 TTL, 24-25 header checksum. With m = {TTL, protocol} and
    // m' = m - 0x0100, RFC 1624 eqn. 3, HC' = ~(~HC + ~m + m'), has the constant ~m + m' = 0xfeff.
    reg [2:0] index;  // of the word, to 4
    wire [15:0] checksum = {rd_data[7:0], rd_data[15:8]};
    wire [16:0] updated = {1'b0, ~checksum} + 17'h0feff;
    wire [15:0] new_checksum = ~(updated[15:0] + {15'b0, updated[16]});
    reg [63:0] edited;
    always @* begin
        edited = rd_data;
        if (!to_host)
            case (index)
                0: edited[47:0] = match_nh_mac;
                2:
                if (ip6) edited[47:40] = rd_data[47:40] - 8'd1;
                else edited[55:48] = rd_data[55:48] - 8'd1;
                3: if (!ip6) edited[15:0] = {new_checksum[7:0], new_checksum[15:8]};
                default: ;
            endcase
    end

    always @(posedge clk) begin
        if (state == ROOM) index <= 0;
        else if (rd_valid && rd_en && index != 4) index <= index + 1'b1;
        enq_valid <= !rst && state == FORWARD && rd_valid;
        enq_data <= edited;
        enq_last <= rd_last;
    end

`ifdef FORMAL
    reg past = 0;
    always @(posedge clk) past <= 1;
    initial assume (rst);

    // P8: for a correct header the updated checksum equals a full recomputation (RFC 1071)
    function [15:0] add;  // one's complement
        input [15:0] a;
        input [15:0] b;
        reg [16:0] sum;
        begin
            sum = {1'b0, a} + {1'b0, b};
            add = sum[15:0] + {15'b0, sum[16]};
        end
    endfunction
    (* anyconst *) reg [15:0] first, length, ident, fragment, src_high, src_low, dst_high, dst_low;
    (* anyconst *) reg [7:0] ttl, proto;
    wire [15:0] others = add(
        add(add(first, length), add(ident, fragment)), add(add(src_high, src_low), add(dst_high, dst_low))
    );
    wire right = add(add(others, {ttl, proto}), checksum) == 16'hffff && first[15:8] == 8'h45 && ttl != 0;
    always @* if (right) p8_checksum: assert (new_checksum == ~add(others, {ttl - 8'd1, proto}));

    // P8, too: what the host gets is what came; of a fast frame change the destination MAC and the TTL, by one, and of IPv4 the
    // checksum; only frames that a router forwards are fast
    wire [63:0] may_change = to_host ? 64'd0 : index == 0 ? 64'h0000ffff_ffffffff
        : index == 2 ? (ip6 ? 64'h0000ff00_00000000 : 64'h00ff0000_00000000) : index == 3 && !ip6 ? 64'h00000000_0000ffff : 64'd0;
    always @* begin
        p8_nothing_else: assert (((edited ^ rd_data) & ~may_change) == 0);
        if (!to_host && index == 0) p8_next_hop: assert (edited[47:0] == match_nh_mac);
        if (!to_host && index == 2 && ip6) p8_hop_limit: assert (edited[47:40] + 8'd1 == rd_data[47:40]);
        if (!to_host && index == 2 && !ip6) p8_ttl: assert (edited[55:48] + 8'd1 == rd_data[55:48]);
    end
    wire searched = state == START || state == MATCH || state == ROOM || state == FORWARD;
    wire forwarded = (ip4 || ip6) && !rd_meta[hero_pkg::META_OPTIONS] && rd_meta[hero_pkg::META_TTL+:8] > 1;
    always @(posedge clk) if (past && !rst && searched && match_route_ok) fast_if_forwarded: assert (forwarded);

    // Each frame has exactly one event
    reg told = 0;
    wire event_now = fwd || drop;
    always @(posedge clk) begin
        told <= !rst && !rd_meta_pop && (told || event_now);
        if (past && !rst) begin
            one_kind_of_event: assert (!(fwd && drop));
            one_event: assert (!(told && event_now));
            event_before_the_next: assert ((told || event_now) == (state == DISCARD || state == POP));
        end
    end

    // Words go only to a queue that had room, and all words of a frame go to the same queue
    reg room_given = 0, inside = 0;
    always @(posedge clk) begin
        if (past && !$past(rst || rd_meta_pop)) assume ($past(!rd_meta_valid) || rd_meta_valid && $stable(rd_meta));
        if (past && !match_done) assume ($stable(match_dest) && $stable(match_prio));
        if (past && state != MATCH) assume (!match_done);
        if (state == ROOM) room_given <= enq_room;
        inside <= !rst && (enq_valid ? !enq_last : inside);
        if (past && !rst) begin
            only_with_room: assert (!(enq_valid || state == FORWARD) || room_given);
            last_word_ends: assert (!enq_valid || state == (enq_last ? POP : FORWARD));
            no_word_of_another: assert (!inside || state == FORWARD || enq_valid);
            meta_stays: assert (state == IDLE || rd_meta_valid);
            if ($past(state == FORWARD) && (state == FORWARD || state == POP))
                queue_stays: assert ($stable(enq_queue) && $stable(enq_len));
        end
    end

    always @(posedge clk)
        if (past && !rst) begin
            c_two_words_to_a_peer: cover (fwd && !to_host && index == 2);
            if (ip6) c_ip6: cover (fwd && !to_host && index == 3 && match_route_ok);
            c_to_the_host: cover (fwd && to_host);
            c_no_room: cover (drop && drop_reason == hero_pkg::COUNT_PEER_FULL);
            c_refused: cover (drop && drop_reason == hero_pkg::COUNT_FOREIGN_MAC);
        end
    always @* c_checksum: cover (right);
`endif
endmodule

`default_nettype wire
