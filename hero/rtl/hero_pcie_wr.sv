// AXI4 writes to posted memory writes (MWr). One transaction at a time; its response comes when the PCIe core has taken the
// last TLP, so that what the card says after it (a register, an interrupt) cannot overtake the data.
//
// A TLP ends at the largest payload, at 4 KiB and with the transaction. A word with strobes is a TLP of one or two DWs by
// itself, because in longer ones only the first and the last DW may have byte enables.
`default_nettype none

module hero_pcie_wr #(
    parameter PAYLOAD_WORDS = 16  // the smallest payload size; less in proofs
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire [ 15:0] id,            // bus, device, function
    input  wire [ 31:0] high,          // of all addresses; 0: headers of 3 DWs
    input  wire         bus_master,    // without it: SLVERR
    input  wire [  2:0] max_payload,   // 128 octets << max_payload
    input  wire [ 31:0] s_axi_awaddr,  // 8-octet aligned
    input  wire [  7:0] s_axi_awlen,
    input  wire         s_axi_awvalid,
    output wire         s_axi_awready,
    input  wire [ 63:0] s_axi_wdata,
    input  wire [  7:0] s_axi_wstrb,
    input  wire         s_axi_wlast,
    input  wire         s_axi_wvalid,
    output wire         s_axi_wready,
    output wire [  1:0] s_axi_bresp,
    output wire         s_axi_bvalid,
    input  wire         s_axi_bready,
    output reg          tlp_valid,
    input  wire         tlp_ready,
    output reg          tlp_sop,
    output wire         tlp_eop,
    output wire [127:0] tlp_hdr,
    output wire [ 63:0] tlp_data,
    output wire [  1:0] tlp_strb
);
    localparam IDLE = 3'd0, COLLECT = 3'd1, DISCARD = 3'd2, FINISH = 3'd3, RESPONSE = 3'd4;
    reg [2:0] state;
    reg refused;

    // --- Words into the buffer, which holds the longest transaction ---
    reg [31:0] next;  // address of the next word
    reg [8:0] count;  // words of the open TLP
    reg [7:0] wp;
    reg closed;       // the open TLP is whole and waits for the sender
    reg [31:0] c_addr;
    reg [8:0] c_words;
    reg [7:0] c_be;   // last, first
    reg c_single;     // one DW
    reg c_end;        // last of the transaction
    wire [9:0] max_words = PAYLOAD_WORDS[9:0] << max_payload;
    wire [9:0] grown = {1'b0, count} + 10'd1;
    wire full = &s_axi_wstrb;
    wire none = s_axi_wstrb == 8'd0;
    wire single = !full && (s_axi_wstrb[3:0] == 4'd0 || s_axi_wstrb[7:4] == 4'd0);
    wire upper = !full && s_axi_wstrb[3:0] == 4'd0;
    wire split = !full && count != 9'd0;  // the TLP before it first
    wire take = s_axi_wvalid && state == COLLECT && !closed && !split;
    wire at_end = grown == max_words || next[11:3] == 9'h1ff;
    wire load, over, ended;

    always @(posedge sys_clk) begin
        if (load) begin
            closed <= 1'b0;
            count <= 9'd0;
        end
        case (state)
            IDLE:
            if (s_axi_awvalid) begin
                next <= s_axi_awaddr;
                count <= 9'd0;
                refused <= !bus_master;
                state <= bus_master ? COLLECT : DISCARD;
            end
            COLLECT:
            if (s_axi_wvalid && !closed && split) begin
                closed <= 1'b1;
                c_words <= count;
                c_be <= 8'hff;
                c_single <= 1'b0;
                c_end <= 1'b0;
            end else if (take) begin
                next <= next + 32'd8;
                if (!none) begin
                    wp <= wp + 8'd1;
                    count <= grown[8:0];
                    if (count == 9'd0) c_addr <= {next[31:3], upper, 2'd0};
                end
                closed <= at_end && !none || !full && !none || s_axi_wlast;
                c_words <= none ? 9'd0 : grown[8:0];
                c_be <= single ? {4'd0, s_axi_wstrb[3:0] | s_axi_wstrb[7:4]} : s_axi_wstrb;
                c_single <= single;
                c_end <= s_axi_wlast;
                if (s_axi_wlast) state <= FINISH;
            end
            DISCARD: if (s_axi_wvalid && s_axi_wlast) state <= RESPONSE;
            FINISH: if (ended) state <= RESPONSE;
            default: if (s_axi_bready) state <= IDLE;
        endcase
        if (sys_rst) begin
            state <= IDLE;
            closed <= 1'b0;
            wp <= 8'd0;
        end
    end
    assign s_axi_awready = state == IDLE;
    assign s_axi_wready = state == DISCARD || take;
    assign s_axi_bvalid = state == RESPONSE;
    assign s_axi_bresp = {refused, 1'b0};

    // --- TLPs out of it ---
    reg busy, s_single, s_end;
    reg [31:0] s_addr;
    reg [8:0] s_words, s_left, s_fetch;
    reg [7:0] s_be, rp;
    assign load = closed && !busy;
    wire fetch = s_fetch != 9'd0 && (!tlp_valid || tlp_ready);
    assign over = busy && (s_left == 9'd0 || tlp_valid && tlp_ready && tlp_eop);
    assign ended = over && s_end;
    hero_ram #(.WIDTH(64), .WORDS(256)) buffer (
            .wr_clk(sys_clk), .wr_en(take), .wr_addr(wp), .wr_data(upper ? {32'd0, s_axi_wdata[63:32]} : s_axi_wdata),
            .rd_clk(sys_clk), .rd_en(fetch), .rd_addr(rp), .rd_data(tlp_data)
    );

    always @(posedge sys_clk) begin
        if (load) begin
            busy <= 1'b1;
            s_addr <= c_addr;
            s_words <= c_words;
            s_left <= c_words;
            s_fetch <= c_words;
            s_be <= c_be;
            s_single <= c_single;
            s_end <= c_end;
            tlp_sop <= 1'b1;
        end
        if (fetch) begin
            rp <= rp + 8'd1;
            s_fetch <= s_fetch - 9'd1;
            tlp_valid <= 1'b1;
        end else if (tlp_ready) tlp_valid <= 1'b0;
        if (tlp_valid && tlp_ready) begin
            tlp_sop <= 1'b0;
            s_left <= s_left - 9'd1;
        end
        if (over) busy <= 1'b0;
        if (sys_rst) begin
            busy <= 1'b0;
            tlp_valid <= 1'b0;
            s_fetch <= 9'd0;
            rp <= 8'd0;
        end
    end
    assign tlp_eop = s_left == 9'd1;
    assign tlp_strb = {!s_single, 1'b1};
    wire wide = high != 32'd0;
    wire [9:0] dws = s_single ? 10'd1 : {s_words, 1'b0};
    assign tlp_hdr = {2'b01, wide, 5'd0, 14'd0, dws, id, 8'd0, s_be,
                      wide ? {high, s_addr} : {s_addr, 32'd0}};
    wire unused = &{1'b0, s_axi_awlen};

`ifdef FORMAL
    reg past = 0;
    reg was_rst = 1;
    always @(posedge sys_clk) begin
        past <= 1;
        was_rst <= sys_rst;
    end
    initial assume (sys_rst);

    // Assumptions: the master holds what it offers, aligned; payload and address settings stay.
    reg [8:0] beats = 0;
    always @(posedge sys_clk) begin
        assume (s_axi_awaddr[2:0] == 3'd0);
        assume ($stable(max_payload) && max_payload < 3'd6 && $stable(high) && $stable(id));
        assume (s_axi_wlast == (beats == 9'd1) || !s_axi_wvalid);
        assume (!s_axi_wvalid || beats != 9'd0);
        if (s_axi_awvalid && s_axi_awready) beats <= {1'b0, s_axi_awlen} + 9'd1;
        else if (s_axi_wvalid && s_axi_wready) beats <= beats - 9'd1;
        if (sys_rst) beats <= 0;
        if (past && !was_rst && !sys_rst && $past(s_axi_wvalid && !s_axi_wready))
            assume (s_axi_wvalid && $stable(s_axi_wstrb) && $stable(s_axi_wlast));
    end

    wire [9:0] length = tlp_hdr[105:96];
    wire [31:0] address = wide ? tlp_hdr[31:0] : tlp_hdr[63:32];
    wire [12:0] last_octet = {1'b0, address[11:0]} + {1'b0, length, 2'd0} - 13'd1;
    always @(posedge sys_clk)
        if (past && !was_rst && !sys_rst) begin
            if (tlp_valid) begin
                within_4k: assert (!last_octet[12]);
                within_payload: assert ({1'b0, length} <= {PAYLOAD_WORDS[9:0], 1'b0} << max_payload && length != 10'd0);
                enabled_ends: assert (tlp_hdr[67:64] != 4'd0 && (tlp_hdr[71:68] != 4'd0) == (length != 10'd1));
                inside_whole: assert (length <= 10'd2 || &tlp_hdr[71:64]);
            end
            if ($past(tlp_valid && !tlp_ready))
                p9_write: assert (tlp_valid && $stable(tlp_hdr) && $stable(tlp_eop) && $stable(tlp_sop));
            if (s_axi_bvalid && !refused) response_behind_data: assert (!tlp_valid && !busy && !closed && beats == 0);
        end
    always @(posedge sys_clk)
        if (past && !sys_rst) begin
            c_one_dw: cover (tlp_valid && length == 10'd1);
            c_two_tlps: cover (s_axi_bvalid && $past(tlp_valid && tlp_sop));
            c_up_to_4k: cover (tlp_valid && last_octet == 13'hfff && length == 10'd4);
            c_no_bus_master: cover (s_axi_bvalid && refused);
        end
`endif
endmodule

`default_nettype wire
