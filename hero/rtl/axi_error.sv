// The slave for unassigned addresses: accepts every transaction and answers DECERR.
`default_nettype none

module axi_error (
    input  wire       sys_clk,
    input  wire       sys_rst,
    input  wire       awvalid,
    output wire       awready,
    input  wire       wlast,
    input  wire       wvalid,
    output wire       wready,
    output reg        bvalid,
    input  wire       bready,
    input  wire [7:0] arlen,
    input  wire       arvalid,
    output wire       arready,
    output wire       rlast,
    output reg        rvalid,
    input  wire       rready
);
    reg writing;  // between AW and the last W
    assign awready = !writing && !bvalid;
    assign wready  = writing;

    always @(posedge sys_clk) begin
        if (awvalid && awready) writing <= 1;
        if (wvalid && wready && wlast) begin
            writing <= 0;
            bvalid <= 1;
        end
        if (bvalid && bready) bvalid <= 0;
        if (sys_rst) begin
            writing <= 0;
            bvalid <= 0;
        end
    end

    reg [7:0] left;  // beats after this one
    assign arready = !rvalid;
    assign rlast = left == 0;

    always @(posedge sys_clk) begin
        if (arvalid && arready) begin
            rvalid <= 1;
            left <= arlen;
        end
        if (rvalid && rready) begin
            left <= left - 1;
            if (rlast) rvalid <= 0;
        end
        if (sys_rst) rvalid <= 0;
    end
endmodule

`default_nettype wire
