// AXI4 reads to memory read requests (MRd), and their completions to words in order. One transaction at a time, of up to
// 256 words; it is as many requests as the read request size and 4 KiB ask for, each with a tag, all under way together.
//
// A completion must be what its tag's request still waits for: lower address, byte count, whole words. If it is not, says
// an error, or none comes for TIMEOUT cycles, the words that have not left come with SLVERR. A tag whose request
// did not end as it should is stale: it is not used again before another TIMEOUT cycles, as its completion may still come.
`default_nettype none

module hero_pcie_rd #(
    parameter TAG_W = 4,       // 16 tags
    parameter TIMEOUT = 65536  // cycles; PCIe wants at least 50 us
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire [ 15:0] id,
    input  wire [ 31:0] high,
    input  wire         bus_master,
    input  wire [  2:0] max_request,    // 128 octets << max_request
    input  wire [ 31:0] s_axi_araddr,   // 8-octet aligned
    input  wire [  7:0] s_axi_arlen,
    input  wire         s_axi_arvalid,
    output wire         s_axi_arready,
    output wire [ 63:0] s_axi_rdata,
    output wire [  1:0] s_axi_rresp,
    output wire         s_axi_rlast,
    output reg          s_axi_rvalid,
    input  wire         s_axi_rready,
    output wire         req_valid,
    input  wire         req_ready,
    output wire [127:0] req_hdr,
    input  wire         cpl_valid,
    output wire         cpl_ready,
    input  wire         cpl_sop,
    input  wire         cpl_eop,
    input  wire [127:0] cpl_hdr,
    input  wire [  3:0] cpl_error,      // from the core: not 0 is an error
    input  wire [ 63:0] cpl_data,
    input  wire [  1:0] cpl_strb,
    output reg          unexpected,     // pulse: a completion that nothing waits for
    output reg          timed_out       // pulse
);
    localparam TAGS = 1 << TAG_W;
    localparam TIME_W = $clog2(TIMEOUT + 1);
    localparam IDLE = 2'd0, SPLIT = 2'd1, SEND = 2'd2, REST = 2'd3;
    reg [1:0] state;
    reg failed;

    // --- Tags: of each the word that comes next, by its address, and the words that are missing ---
    reg [TAGS-1:0] used;   // from the request until its words have left
    reg [TAGS-1:0] open;   // completions are missing
    reg [TAGS-1:0] stale;
    reg [TAGS*8-1:0] at;
    reg [TAGS*9-1:0] missing;
    reg [TAG_W-1:0] tag;   // of the next request
    reg [TAG_W-1:0] head;  // whose words leave

    // --- Requests ---
    reg [31:0] addr;
    reg [8:0] left, size;
    // Half of the buffer at most, so that a request with all its words is told from one with none
    wire [9:0] max_words = max_request > 3'd3 ? 10'd128 : 10'd16 << max_request;
    wire [9:0] to_page = 10'd512 - {1'b0, addr[11:3]};
    wire [9:0] limit = max_words < to_page ? max_words : to_page;
    wire [8:0] chunk = {1'b0, left} < limit ? left : limit[8:0];
    wire sent = req_valid && req_ready;
    wire wide = high != 32'd0;
    assign req_valid = state == SEND;
    assign req_hdr = {2'b00, wide, 5'd0, 14'd0, size, 1'b0, id, {(8 - TAG_W) {1'b0}}, tag, 8'hff,
                      wide ? {high, addr} : {addr, 32'd0}};
    assign s_axi_arready = state == IDLE && !s_axi_rvalid;

    // --- Completions: the first word's cycle looks at the header, the next ones take words ---
    reg taking, bad, keep;  // bad: nothing of it is right; keep: it has data for `c_tag`
    reg [TAG_W-1:0] c_tag;
    reg [8:0] c_left;  // words that it must still have
    wire [TAG_W-1:0] h_tag = cpl_hdr[40+:TAG_W];
    wire [8:0] h_words = cpl_hdr[105:97];
    wire h_data = cpl_hdr[126];
    wire [8:0] h_missing = missing[h_tag*9+:9];
    wire [3:0] h_at = at[h_tag*8+:4];
    // The tag names a request under way, whatever else the completion says
    wire h_open = open[h_tag] && cpl_hdr[47:40] == {{(8 - TAG_W) {1'b0}}, h_tag} && !cpl_hdr[119] && !cpl_hdr[115]
        && cpl_hdr[63:48] == id && cpl_hdr[124:120] == 5'b01010;
    wire h_good = h_data && cpl_hdr[79:77] == 3'd0 && cpl_error == 4'd0 && !cpl_hdr[110]
        && cpl_hdr[75:64] == {h_missing, 3'd0}
        && cpl_hdr[38:32] == {h_at, 3'd0}
        && !cpl_hdr[96] && h_words != 9'd0 && h_words <= h_missing;
    wire store = cpl_valid && cpl_ready && keep && c_left != 9'd0;
    wire cut = keep && c_left != 9'd1;
    assign cpl_ready = taking;

    // --- Words in order ---
    reg [7:0] out;  // address of the next word that leaves
    reg [8:0] out_left;
    reg error;      // of the word at the output
    wire have = used[head] && out != at[head*8+:8];
    // A failed transaction gives the rest when no completion is under way for it.
    wire give_up = failed && state == REST && open == {TAGS{1'b0}};
    wire move = !s_axi_rvalid || s_axi_rready;
    wire leave = move && out_left != 9'd0 && (give_up || have && !failed);
    wire drained = used[head] && !open[head] && out == at[head*8+:8];
    reg last;
    hero_ram #(.WIDTH(64), .WORDS(256)) buffer (
            .wr_clk(sys_clk), .wr_en(store), .wr_addr(at[c_tag*8+:8]), .wr_data(cpl_data),
            .rd_clk(sys_clk), .rd_en(leave), .rd_addr(out), .rd_data(s_axi_rdata)
    );
    assign s_axi_rresp = {error, 1'b0};
    assign s_axi_rlast = last;

    // --- Time-outs: without progress of any request; the age of what is stale ---
    reg [TIME_W-1:0] waited, age;
    wire expired = waited == TIMEOUT[TIME_W-1:0] && !taking && !sent;

    always @(posedge sys_clk) begin
        unexpected <= 1'b0;
        timed_out <= 1'b0;
        waited <= open == {TAGS{1'b0}} || sent || taking ? {TIME_W{1'b0}} : waited + 1'b1;
        age <= stale == {TAGS{1'b0}} ? {TIME_W{1'b0}} : age + 1'b1;
        if (age == TIMEOUT[TIME_W-1:0]) stale <= {TAGS{1'b0}};

        case (state)
            IDLE:
            if (s_axi_arvalid && !s_axi_rvalid) begin
                addr <= s_axi_araddr;
                out <= s_axi_araddr[10:3];
                left <= {1'b0, s_axi_arlen} + 9'd1;
                out_left <= {1'b0, s_axi_arlen} + 9'd1;
                failed <= !bus_master;
                state <= bus_master ? SPLIT : REST;
            end
            SPLIT:
            if (failed) state <= REST;
            else if (stale[tag]) tag <= tag + 1'b1;
            else if (!used[tag]) begin
                size <= chunk;
                state <= SEND;
            end
            SEND:
            if (req_ready) begin
                used[tag] <= 1'b1;
                open[tag] <= 1'b1;
                at[tag*8+:8] <= addr[10:3];
                missing[tag*9+:9] <= size;
                tag <= tag + 1'b1;
                addr <= addr + {20'd0, size, 3'd0};
                left <= left - size;
                state <= left == size ? REST : SPLIT;
            end
            default: if (out_left == 9'd0) state <= IDLE;
        endcase

        if (!taking && cpl_valid && !expired) begin
            taking <= 1'b1;
            c_tag <= h_tag;
            c_left <= h_words;
            keep <= h_open && h_good;
            bad <= h_open && !h_good;
            unexpected <= !h_open;
        end
        if (store) begin
            c_left <= c_left - 9'd1;
            at[c_tag*8+:8] <= at[c_tag*8+:8] + 8'd1;
            missing[c_tag*9+:9] <= missing[c_tag*9+:9] - 9'd1;
            if (missing[c_tag*9+:9] == 9'd1) open[c_tag] <= 1'b0;
        end
        if (cpl_valid && cpl_ready && cpl_eop) begin
            taking <= 1'b0;
            if (bad || cut) begin
                failed <= 1'b1;
                open[c_tag] <= 1'b0;
                stale[c_tag] <= 1'b1;
                age <= {TIME_W{1'b0}};
            end
        end
        if (expired) begin
            timed_out <= 1'b1;
            failed <= 1'b1;
            stale <= stale | open;
            open <= {TAGS{1'b0}};
            age <= {TIME_W{1'b0}};
        end

        if (leave) begin
            out <= out + 8'd1;
            out_left <= out_left - 9'd1;
            last <= out_left == 9'd1;
            error <= give_up;
            s_axi_rvalid <= 1'b1;
        end else if (s_axi_rready) s_axi_rvalid <= 1'b0;
        if (drained) used[head] <= 1'b0;
        if (drained || !used[head] && head != tag) head <= head + 1'b1;
        if (state == REST && out_left == 9'd0) begin
            used <= {TAGS{1'b0}};
            head <= tag;
        end

        if (sys_rst) begin
            state <= IDLE;
            used <= {TAGS{1'b0}};
            // What was under way before a reset may still be answered.
            stale <= {TAGS{1'b1}};
            age <= {TIME_W{1'b0}};
            open <= {TAGS{1'b0}};
            tag <= {TAG_W{1'b0}};
            head <= {TAG_W{1'b0}};
            taking <= 1'b0;
            failed <= 1'b0;
            out_left <= 9'd0;
            s_axi_rvalid <= 1'b0;
            unexpected <= 1'b0;
            timed_out <= 1'b0;
        end
    end
    wire unused = &{1'b0, cpl_sop, cpl_strb, cpl_hdr};

`ifdef FORMAL
    reg past = 0;
    reg was_rst = 1;
    always @(posedge sys_clk) begin
        past <= 1;
        was_rst <= sys_rst;
    end
    initial assume (sys_rst);
    wire check = past && !was_rst && !sys_rst;

    // Assumptions: aligned addresses, settings that stay, and a core that keeps to the protocol of streams. What completions
    // say is free.
    reg inside = 0;
    always @(posedge sys_clk) begin
        assume (s_axi_araddr[2:0] == 3'd0);
        assume ($stable(max_request) && max_request < 3'd6 && $stable(high) && $stable(id));
        assume (!cpl_valid || cpl_sop != inside);
        if (cpl_valid && cpl_ready) inside <= !cpl_eop;
        if (sys_rst) inside <= 0;
        if (past && sys_rst) assume ($past(sys_rst));
        if (check && $past(cpl_valid && !cpl_ready))
            assume (cpl_valid && $stable(cpl_hdr) && $stable(cpl_eop) && $stable(cpl_error));
    end

    // One tag, followed from outside: what its request still waits for, and for how long it has heard nothing
    (* anyconst *) wire [TAG_W-1:0] watched;
    reg [8:0] w_left = 0;
    reg [7:0] w_next;
    reg [TIME_W:0] w_quiet;
    reg w_named = 0;  // the completion that is taken names it, and where it stands
    wire [7:0] watched_8 = {{(8 - TAG_W) {1'b0}}, watched};
    wire w_sent = sent && req_hdr[79:72] == watched_8;
    wire [9:0] length = req_hdr[105:96];
    wire [31:0] address = wide ? req_hdr[31:0] : req_hdr[63:32];
    wire [12:0] last_octet = {1'b0, address[11:0]} + {1'b0, length, 2'd0} - 13'd1;
    always @(posedge sys_clk) begin
        if (!(&w_quiet)) w_quiet <= w_quiet + 1'b1;
        if (cpl_valid && !taking) begin
            w_named <= w_left != 0 && cpl_hdr[124:120] == 5'b01010 && cpl_hdr[47:40] == watched_8 && !cpl_hdr[119] && !cpl_hdr[115] && cpl_hdr[63:48] == id
                && cpl_hdr[75:64] == {w_left, 3'd0} && cpl_hdr[38:32] == {w_next[3:0], 3'd0};
            if (cpl_hdr[47:40] == watched_8) w_quiet <= 0;
        end
        if (cpl_valid && cpl_ready && w_named && w_left != 0) begin
            w_left <= w_left - 1'b1;
            w_next <= w_next + 1'b1;
        end
        if (w_sent) begin
            w_left <= length[9:1];
            w_next <= address[10:3];
            w_quiet <= 0;
        end
        if (sys_rst) w_left <= 0;
    end

    always @(posedge sys_clk)
        if (check) begin
            if (req_valid) begin
                within_4k: assert (!last_octet[12]);
                within_request_size: assert ({1'b0, length} <= 11'd32 << max_request && length != 0);
            end
            if (w_sent) tag_is_free: assert (w_left == 0 || w_quiet >= TIMEOUT);
            if (store && c_tag == watched) begin
                only_its_own: assert (w_named && w_left != 0);
                in_its_place: assert (at[c_tag*8+:8] == w_next);
            end
            if ($past(req_valid && !req_ready)) p9_request: assert (req_valid && $stable(req_hdr));
            if ($past(s_axi_rvalid && !s_axi_rready))
                p9_read: assert (s_axi_rvalid && $stable(s_axi_rdata) && $stable(s_axi_rresp) && $stable(s_axi_rlast));
        end

    reg turned = 0;  // words were stored out of the order of requests
    always @(posedge sys_clk) begin
        turned <= !sys_rst && (turned || store && used[head] && open[head] && c_tag != head);
        if (check) begin
            c_out_of_order: cover (turned && s_axi_rvalid && s_axi_rready && last && !error);
            c_timed_out: cover (timed_out);
            c_error_then_good: cover (s_axi_rvalid && !error && stale != 0);
            c_for_somebody_else: cover (unexpected && open != 0);
        end
    end
`endif
endmodule

`default_nettype wire
