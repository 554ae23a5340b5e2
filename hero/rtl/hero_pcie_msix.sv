// MSI-X: the table at 0, the pending bits at 0x800, three vectors. An interrupt is a level; its rise makes a message, at once
// or when nothing masks it any more. If it falls before, what it stood for has been served, and no message is due.
`default_nettype none

module hero_pcie_msix (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire [ 15:0] id,
    input  wire         bus_master,
    input  wire         enable,         // from the capability
    input  wire         function_mask,
    input  wire [  2:0] irq,
    input  wire         wr_en,
    input  wire [  9:0] wr_dw,          // DW of the BAR
    input  wire [ 31:0] wr_data,
    input  wire [  3:0] wr_be,
    input  wire [  9:0] rd_dw,
    output reg  [ 31:0] rd_data,
`ifdef FORMAL
    output wire [  2:0] f_sent,         // by vector: a message leaves the table, mask, pending bit
    output wire [  2:0] f_mask,
    output wire [  2:0] f_pending,
`endif
    output reg          tlp_valid,
    input  wire         tlp_ready,
    output wire [127:0] tlp_hdr,
    output reg  [ 31:0] tlp_data
);
    localparam N = 3;
    reg [N*96-1:0] entry;  // of each vector data, high and low address
    reg [N-1:0] mask, pending, was_up;
    reg [63:0] address;
    wire wide = address[63:32] != 32'd0;
    assign tlp_hdr = {2'b01, wide, 5'd0, 14'd0, 10'd1, id, 8'd0, 8'h0f, wide ? address : {address[31:0], 32'd0}};

    wire [N-1:0] ready = function_mask || !bus_master ? {N{1'b0}} : pending & ~mask;
    wire [1:0] pick = ready[0] ? 2'd0 : ready[1] ? 2'd1 : 2'd2;
    wire send = ready != {N{1'b0}} && enable && !tlp_valid;
    integer i, k;

    always @(posedge sys_clk) begin
        was_up <= enable ? irq : {N{1'b0}};  // what is up when MSI-X comes on counts as a rise
        pending <= (pending | irq & ~was_up) & irq & {N{enable}};
        if (tlp_ready) tlp_valid <= 1'b0;
        if (send) begin
            tlp_valid <= 1'b1;
            tlp_data <= entry[pick*96+64+:32];
            address <= {entry[pick*96+32+:32], entry[pick*96+2+:30], 2'd0};
            pending[pick] <= 1'b0;
        end
        for (i = 0; i < N; i = i + 1)
            if (wr_en && wr_dw[9:2] == i[7:0]) begin
                if (wr_dw[1:0] == 2'd3) begin
                    if (wr_be[0]) mask[i] <= wr_data[0];
                end else begin
                    for (k = 0; k < 4; k = k + 1)
                        if (wr_be[k]) entry[i*96+wr_dw[1:0]*32+k*8+:8] <= wr_data[k*8+:8];
                end
            end
        if (sys_rst) begin
            mask <= {N{1'b1}};
            pending <= {N{1'b0}};
            was_up <= {N{1'b0}};
            entry <= {N * 96{1'b0}};
            tlp_valid <= 1'b0;
        end
    end

    always @* begin
        rd_data = 32'd0;
        if (rd_dw == 10'h200) rd_data = {29'd0, pending};
        else if (rd_dw < 10'd12)
            rd_data = rd_dw[1:0] == 2'd3 ? {31'd0, mask[rd_dw[3:2]]} : entry[rd_dw[3:2]*96+rd_dw[1:0]*32+:32];
    end

`ifdef FORMAL
    assign f_sent = send ? 3'd1 << pick : 3'd0;
    assign f_mask = mask;
    assign f_pending = pending;
`endif
endmodule

`default_nettype wire
