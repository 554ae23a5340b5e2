// Completions. Reads of the registers and of the MSI-X table get their data, cut at multiples of 128 octets; a read that the
// registers refuse gets Completer Abort, and all else that asks for a completion Unsupported Request.
//
// Requests wait in a queue of DEPTH, and the core must have no more non-posted requests for us than that: only then no posted
// write waits behind them. `hold`: a message that left its vector before the read has not gone to the core yet.
`default_nettype none

module hero_pcie_cpl #(
    parameter DEPTH_W = 3
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire [ 15:0] id,
    input  wire         hold,
    input  wire         np_valid,
    output wire         np_ready,
    input  wire [127:0] np_hdr,
    input  wire [  2:0] np_bar,
    output wire [  7:0] m_axil_araddr,
    output reg          m_axil_arvalid,
    input  wire         m_axil_arready,
    input  wire [ 31:0] m_axil_rdata,
    input  wire [  1:0] m_axil_rresp,
    input  wire         m_axil_rvalid,
    output wire         m_axil_rready,
    output wire [  9:0] table_rd_dw,
    input  wire [ 31:0] table_rd_data,
    output reg          tlp_valid,
    input  wire         tlp_ready,
    output reg          tlp_sop,
    output wire         tlp_eop,
    output wire [127:0] tlp_hdr,
    output wire [ 63:0] tlp_data,
    output wire [  1:0] tlp_strb
);
    localparam IDLE = 3'd0, FETCH = 3'd1, START = 3'd2, READ = 3'd3, ANSWER = 3'd4, SEND = 3'd5, WAIT = 3'd6;
    localparam [2:0] OK = 3'd0, UR = 3'd1, CA = 3'd4;
    reg [2:0] state;

    // --- The queue ---
    reg [DEPTH_W:0] wp, rp;
    wire [130:0] entry;
    assign np_ready = wp - rp != {1'b1, {DEPTH_W{1'b0}}};
    hero_ram #(.WIDTH(131), .WORDS(1 << DEPTH_W)) queue (
            .wr_clk(sys_clk), .wr_en(np_valid && np_ready), .wr_addr(wp[DEPTH_W-1:0]), .wr_data({np_bar, np_hdr}),
            .rd_clk(sys_clk), .rd_en(state == FETCH), .rd_addr(rp[DEPTH_W-1:0]), .rd_data(entry)
    );

    // --- The request ---
    wire [2:0] bar = entry[130:128];
    wire wide = entry[125];
    wire locked = entry[124:120] == 5'd1;
    wire is_read = entry[127:126] == 2'b00 && entry[124:120] == 5'd0;
    wire [9:0] dw = wide ? entry[11:2] : entry[43:34];
    wire [9:0] length = entry[105:96];
    wire [3:0] first_be = entry[67:64];
    wire [3:0] last_be = entry[71:68];
    wire [10:0] beyond = {1'b0, dw} + {1'b0, length};
    wire known = is_read && !entry[110] && length != 10'd0
        && (bar == 3'd0 && beyond <= 11'd64 || bar == 3'd4 && beyond <= 11'd1024);
    wire [1:0] skip = first_be[0] || first_be == 4'd0 ? 2'd0 : first_be[1] ? 2'd1 : first_be[2] ? 2'd2 : 2'd3;
    wire [3:0] end_be = length == 10'd1 ? first_be : last_be;
    wire [1:0] pad = end_be[3] ? 2'd0 : end_be[2] ? 2'd1 : end_be[1] ? 2'd2 : 2'd3;
    // A read without any byte enable is a flush, one octet long. What is no memory read has four octets.
    wire [11:0] octets = entry[124:121] != 4'd0 ? 12'd4 : length == 10'd1 && first_be == 4'd0 ? 12'd1
        : {length, 2'd0} - {10'd0, skip} - {10'd0, pad};

    // --- Its pieces ---
    reg [2:0] status;
    reg [9:0] at, left;  // DWs
    reg [11:0] count;    // octets, with this piece
    reg [1:0] offset;
    reg begun;           // a DW of the request has been read
    reg [5:0] size, got; // DWs of this piece
    wire [5:0] room = 6'd32 - {1'b0, dw[4:0]};  // to the first multiple of 128 octets
    wire [3:0] be = !begun ? first_be : left - {4'd0, got} == 10'd1 ? last_be : 4'hf;
    wire in_table = bar == 3'd4;
    wire skipped = be == 4'd0;  // it must have no side effect
    wire have = state == READ && (in_table || skipped) || state == ANSWER && m_axil_rvalid;
    wire [31:0] value = state == READ && skipped ? 32'd0 : in_table ? table_rd_data : m_axil_rdata;
    wire [9:0] now = at + {4'd0, got};
    assign table_rd_dw = now;
    assign m_axil_araddr = {now[5:0], 2'd0};
    assign m_axil_rready = state == ANSWER;
    reg [31:0] low;
    reg [3:0] word;      // that goes out
    wire fetch;
    wire got_all = got + 6'd1 == size;
    hero_ram #(.WIDTH(64), .WORDS(16)) buffer (
            .wr_clk(sys_clk), .wr_en(have), .wr_addr(got[4:1]), .wr_data(got[0] ? {value, low} : {32'd0, value}),
            .rd_clk(sys_clk), .rd_en(fetch), .rd_addr(word), .rd_data(tlp_data)
    );

    // --- Out ---
    wire data = status == OK;
    reg [5:0] sending;   // DWs that have not been taken
    reg [5:0] fetching;  // DWs that are not at the output
    wire taken = tlp_valid && tlp_ready;
    assign fetch = state == SEND && fetching != 6'd0 && !(hold && tlp_sop && !tlp_valid) && (!tlp_valid || tlp_ready);
    wire [9:0] h_length = data ? {4'd0, size} : 10'd0;
    wire [6:0] lower = data ? {at[4:0], offset} : 7'd0;
    assign tlp_eop = !data || sending <= 6'd2;
    assign tlp_strb = data ? {sending != 6'd1, 1'b1} : 2'b00;
    assign tlp_hdr = {1'b0, data, 1'b0, 4'b0101, locked, entry[119:112] & 8'b11111100, 2'd0, entry[109:108], 2'd0, h_length,
                      id, status, 1'b0, count, entry[95:72], 1'b0, lower, 32'd0};

    always @(posedge sys_clk) begin
        if (np_valid && np_ready) wp <= wp + 1'b1;
        case (state)
            IDLE: if (wp != rp) state <= FETCH;
            FETCH: state <= START;
            START: begin
                status <= known ? OK : UR;
                at <= dw;
                left <= length;
                count <= octets;
                offset <= skip;
                begun <= 1'b0;
                got <= 6'd0;
                size <= known ? length < {4'd0, room} ? length[5:0] : room : 6'd1;
                state <= known ? READ : WAIT;
            end
            READ: if (!have) state <= ANSWER;
            ANSWER: ;
            WAIT: begin
                sending <= size;
                fetching <= size;
                tlp_sop <= 1'b1;
                state <= SEND;
            end
            default: begin
                if (fetch) begin
                    word <= word + 4'd1;
                    fetching <= fetching > 6'd2 ? fetching - 6'd2 : 6'd0;
                    tlp_valid <= 1'b1;
                end else if (taken) tlp_valid <= 1'b0;
                if (taken) begin
                    tlp_sop <= 1'b0;
                    sending <= sending - 6'd2;
                    if (tlp_eop) begin
                        tlp_valid <= 1'b0;
                        at <= at + {4'd0, size};
                        left <= left - {4'd0, size};
                        count <= count - {4'd0, size, 2'd0} + {10'd0, offset};
                        offset <= 2'd0;
                        got <= 6'd0;
                        size <= left - {4'd0, size} < 10'd32 ? left[5:0] - size : 6'd32;
                        if (!data || left == {4'd0, size}) begin
                            rp <= rp + 1'b1;
                            state <= IDLE;
                        end else state <= READ;
                    end
                end
            end
        endcase
        if (m_axil_arready) m_axil_arvalid <= 1'b0;
        if (state == READ && !have) m_axil_arvalid <= 1'b1;
        if (have) begin
            low <= value;
            begun <= 1'b1;
            got <= got + 6'd1;
            word <= 4'd0;
            state <= got_all ? WAIT : READ;
            if (state == ANSWER && m_axil_rresp[1]) begin
                status <= CA;
                state <= WAIT;
            end
        end
        if (sys_rst) begin
            state <= IDLE;
            wp <= {(DEPTH_W + 1) {1'b0}};
            rp <= {(DEPTH_W + 1) {1'b0}};
            m_axil_arvalid <= 1'b0;
            tlp_valid <= 1'b0;
            word <= 4'd0;
        end
    end
    wire unused = &{1'b0, entry, end_be[0], m_axil_rresp[0]};
endmodule

`default_nettype wire
