// hero_vectors with hero_pcie_msix behind it: between a card's events and the messages that leave. The vectors' entries in the
// table, the masks and the PCIe core are free; MSI-X stays on.
`default_nettype none

module vectors_bench (
    input wire       sys_clk,
    input wire       sys_rst,
    input wire [7:0] pending,
    input wire [7:0] mask,
    input wire       read,
    input wire       bus_master,
    input wire       function_mask,
    input wire       wr_en,
    input wire [9:0] wr_dw,
    input wire [31:0] wr_data,
    input wire [3:0] wr_be,
    input wire       tlp_ready
);
    wire [2:0] vectors, all_sent, masks, waiting;
    wire tlp_valid;
    hero_vectors by_vector (
        .sys_clk(sys_clk), .core_rst(sys_rst), .pending(pending), .mask(mask), .read(read), .vectors(vectors)
    );
    hero_pcie_msix msix (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .id(16'd0), .bus_master(bus_master), .enable(1'b1), .function_mask(function_mask),
        .irq(vectors), .wr_en(wr_en), .wr_dw(wr_dw), .wr_data(wr_data), .wr_be(wr_be), .rd_dw(10'd0), .rd_data(),
        .tlp_valid(tlp_valid), .tlp_ready(tlp_ready), .tlp_hdr(), .tlp_data(),
        .f_sent(all_sent), .f_mask(masks), .f_pending(waiting)
    );

    reg past = 0;
    always @(posedge sys_clk) past <= !sys_rst;
    initial assume (sys_rst);
    wire check = past && !sys_rst;

    // Assumptions: what hero_regs does. A read clears what it shows, but not what comes in that cycle; nothing else clears.
    reg [7:0] was_pending = 0, was_mask = 0;
    reg was_read = 0;
    always @(posedge sys_clk) begin
        was_pending <= sys_rst ? 8'd0 : pending;
        was_mask <= sys_rst ? 8'd0 : mask;
        was_read <= !sys_rst && read;
    end
    always @* begin
        if (!was_read) assume ((was_pending & ~pending) == 8'd0);
        else assume ((was_pending & ~was_mask & ~pending) == 8'd0);
    end

    // A vector of the three, and its events as in docs/hero-device.md
    (* anyconst *) wire [1:0] v;
    always @* assume (v < 2'd3);
    wire [7:0] group = v == 2'd0 ? 8'b00011011 : v == 2'd1 ? 8'b00000100 : 8'b11100000;
    wire [7:0] now = pending & mask & group;
    wire sent = all_sent[v];

    // Why a message is due: an event is let through and the host knows of none; it has just read, and one has come; the mask
    // lets one through that it held back.
    reg up = 0;
    reg [7:0] old_mask = 0;
    wire cause = now != 8'd0 && (!up || (now & ~old_mask) != 8'd0);
    always @(posedge sys_clk) begin
        up <= !sys_rst && !read && now != 8'd0;
        old_mask <= sys_rst ? 8'd0 : mask;
    end

    // No event is lost: when nothing has been sent since a cause, and events are let through and not read, then within some
    // cycles in which this vector could be sent it is. Another vector with a message due goes first.
    reg told = 0;
    reg [1:0] age = 0;  // cycles for which it has been owed; the message waits at the table soon
    reg [2:0] waits = 0;
    wire can = bus_master && !function_mask && !masks[v] && (all_sent == 3'd0 || sent) && !tlp_valid;
    wire owed = now != 8'd0 && !read && !cause && !told;
    always @(posedge sys_clk) begin
        told <= !sys_rst && now != 8'd0 && !read && !cause && (told || sent);
        age <= sys_rst || !owed ? 2'd0 : age == 2'd3 ? age : age + 2'd1;
        waits <= sys_rst || !owed || sent ? 3'd0 : waits + {2'd0, can};
    end

    // No message without a cause: one at most for each. A cause shows at the table two cycles later.
    reg cause_1 = 0, due = 0;
    always @(posedge sys_clk) begin
        cause_1 <= !sys_rst && cause;
        due <= !sys_rst && (cause_1 || due && !sent);
        if (check) begin
            owed_waits: assert (!owed || age != 2'd3 || waiting[v]);
            no_event_lost: assert (waits < 3'd4);
            no_message_alone: assert (!waiting[v] || due);
            sent_waited: assert (!sent || waiting[v]);
        end
    end

    always @(posedge sys_clk)
        if (check) begin
            c_told_again: cover (sent && $past(sent, 4) && $past(cause, 2));
            c_waits_for_mask: cover (sent && $past(masks[v]) && $past(waiting[v], 3));
            c_second_of_group: cover (sent && $past(told && (now & ~old_mask) != 8'd0, 3));
        end
endmodule

`default_nettype wire
