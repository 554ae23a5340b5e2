// Sends from two sources, one packet each in turn: frames of the slow path unchanged, frames of the fast path with the
// card's MAC address as source. Converts words to octets in tx_clk. The sources hold whole packets, so a frame that has
// begun never starves.
`default_nettype none

module hero_out (
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire        tx_enable,  // no frame begins without it
    input  wire [47:0] mac,
    // Packet streams
    input  wire        slow_valid,
    output wire        slow_ready,
    input  wire [63:0] slow_data,
    input  wire        slow_last,
    input  wire [15:0] slow_len,
    input  wire        fast_valid,
    output wire        fast_ready,
    input  wire [63:0] fast_data,
    input  wire        fast_last,
    input  wire [15:0] fast_len,
    output reg         sent,  // pulse: a frame went to the line
    input  wire        tx_clk,
    input  wire        tx_rst,
    output wire [ 7:0] m_axis_tdata,
    output wire        m_axis_tvalid,
    input  wire        m_axis_tready,
    output wire        m_axis_tlast
);
    // Round robin
    reg busy, fast_turn;  // source of the current packet; when idle, the source that is next if both have one
    reg [1:0] index;  // of the word, to 2
    wire room;
    wire valid = busy && (fast_turn ? fast_valid : slow_valid);
    wire last = fast_turn ? fast_last : slow_last;
    wire [2:0] octets_mod_8 = fast_turn ? fast_len[2:0] : slow_len[2:0];
    wire take = valid && room;
    wire unused = &{1'b0, slow_len[15:3], fast_len[15:3]};
    assign slow_ready = busy && !fast_turn && room;
    assign fast_ready = busy && fast_turn && room;

    always @(posedge sys_clk)
        if (sys_rst) begin
            busy <= 0;
            fast_turn <= 0;
            sent <= 0;
        end else begin
            sent <= take && last;
            if (!busy && tx_enable && (slow_valid || fast_valid)) begin
                busy <= 1;
                fast_turn <= fast_turn ? fast_valid : !slow_valid;
            end else if (take && last) begin
                busy <= 0;
                fast_turn <= !fast_turn;
            end
        end

    reg [63:0] edited;
    always @* begin
        edited = fast_turn ? fast_data : slow_data;
        if (fast_turn && index == 0) edited[63:48] = mac[15:0];
        if (fast_turn && index == 1) edited[31:0] = mac[47:16];
    end

    // To tx_clk, by way of a register: {octets of the word - 1, last, data}
    reg [67:0] word;
    reg word_valid;
    wire full;
    assign room = !word_valid || !full;
    always @(posedge sys_clk) begin
        if (!busy) index <= 0;
        else if (take && !index[1]) index <= index + 1'b1;
        if (take) word <= {last ? octets_mod_8 - 3'd1 : 3'd7, last, edited};
        if (sys_rst) word_valid <= 0;
        else word_valid <= take || word_valid && full;
    end

    wire [67:0] next;
    wire next_valid, next_taken;
    hero_async_fifo #(
        .WIDTH(68),
        .DEPTH(16)
    ) fifo (
        .wr_clk  (sys_clk),
        .wr_rst  (sys_rst),
        .wr_en   (word_valid && !full),
        .wr_data (word),
        .wr_full (full),
        .rd_clk  (tx_clk),
        .rd_rst  (tx_rst),
        .rd_valid(next_valid),
        .rd_data (next),
        .rd_en   (next_taken)
    );

    // Words to octets
    reg [63:0] shift;
    reg shift_valid, shift_last;
    reg [2:0] octets_left;  // behind this one
    wire octet_taken = shift_valid && m_axis_tready;
    assign next_taken = next_valid && (!shift_valid || octet_taken && octets_left == 0);
    always @(posedge tx_clk) begin
        if (next_taken) {octets_left, shift_last, shift} <= next;
        else if (octet_taken) begin
            octets_left <= octets_left - 1'b1;
            shift <= {8'b0, shift[63:8]};
        end
        if (tx_rst) shift_valid <= 0;
        else shift_valid <= next_taken || shift_valid && !(octet_taken && octets_left == 0);
    end
    assign m_axis_tdata = shift[7:0];
    assign m_axis_tvalid = shift_valid;
    assign m_axis_tlast = shift_last && octets_left == 0;

`ifdef FORMAL
    // With one clock only; hero_async_fifo proves the crossing
    reg past = 0;  // the last cycle was none of reset
    always @(posedge sys_clk) past <= !sys_rst;
    initial assume (sys_rst);
    always @* assume (sys_rst == tx_rst);
    wire running = past && !sys_rst;

    // Packet streams and the stream to the line hold their signals while they wait (P9)
    always @(posedge sys_clk)
        if (running) begin
            if ($past(slow_valid && !slow_ready)) assume (slow_valid && $stable(slow_last));
            if ($past(fast_valid && !fast_ready)) assume (fast_valid && $stable(fast_last));
            if ($past(m_axis_tvalid && !m_axis_tready))
                p9_line: assert (m_axis_tvalid && $stable(m_axis_tdata) && $stable(m_axis_tlast));
        end

    // A waiting source sees at most one frame of the other; a frame is all from one source
    reg slow_waited = 0, fast_waited = 0;
    wire begins = !busy && tx_enable && (slow_valid || fast_valid);
    wire begins_fast = begins && (fast_turn ? fast_valid : !slow_valid);
    wire begins_slow = begins && !begins_fast;
    always @(posedge sys_clk) begin
        slow_waited <= !sys_rst && !begins_slow && (slow_waited || begins_fast && slow_valid);
        fast_waited <= !sys_rst && !begins_fast && (fast_waited || begins_slow && fast_valid);
        if (running) begin
            one_frame_in_turn: assert (!(begins_fast && slow_waited) && !(begins_slow && fast_waited));
            slow_has_the_next_turn: assert (!slow_waited || slow_valid && fast_turn == busy);
            fast_has_the_next_turn: assert (!fast_waited || fast_valid && fast_turn != busy);
            one_source: assert (!(slow_ready && fast_ready));
            if ($past(busy && !(take && last))) source_stays: assert (busy && $stable(fast_turn));
        end
    end

    always @(posedge sys_clk)
        if (running) begin
            c_sent: cover (sent);
            c_both_waited: cover (begins_slow && fast_valid && slow_waited);
            c_last_octet: cover (m_axis_tvalid && m_axis_tready && m_axis_tlast);
        end
`endif
endmodule

`default_nettype wire
