// Function level reset of a card with hero_pcie, between hero_pcie and the streams of the PCIe core. What was offered to the
// core goes out to its end, and nothing else begins; then the card has its hardware's reset. Meanwhile what the core delivers
// is thrown away, up to the end of a TLP.
`default_nettype none

module hero_pcie_flr (
    input  wire       sys_clk,
    input  wire       sys_rst,
    input  wire       flr,            // the core wants it, until it sees `done`
    output wire       done,
    output wire       card_rst,       // of the card and of hero_pcie
    // To the core: completions, writes, reads
    input  wire [2:0] tx_valid,
    output wire [2:0] tx_ready,
    input  wire [2:0] tx_eop,
    output wire [2:0] core_tx_valid,
    input  wire [2:0] core_tx_ready,
    // From the core: requests, completions
    input  wire [1:0] core_rx_valid,
    output wire [1:0] core_rx_ready,
    input  wire [1:0] core_rx_eop,
    output wire [1:0] rx_valid,
    input  wire [1:0] rx_ready
);
    localparam RUN = 2'd0, STOP = 2'd1, RESET = 2'd2, DONE = 2'd3;
    reg [1:0] state;
    reg [7:0] count;  // of RESET: some cycles of reset, then as many as the card takes until it is ready
    wire stop = state != RUN;
    assign done = state == DONE;
    assign card_rst = sys_rst || state == RESET && count < 8'd8;

    reg [2:0] open;  // a TLP has been offered to the core and is not over
    assign core_tx_valid = tx_valid & (open | {3{!stop}});
    assign tx_ready = core_tx_ready & (open | {3{!stop}});

    reg [1:0] in_tlp, drop;  // the core is in a TLP; its rest is thrown away
    wire [1:0] dropping = drop | {2{stop}};
    assign rx_valid = core_rx_valid & ~dropping;
    assign core_rx_ready = rx_ready | dropping;
    wire [1:0] taken = core_rx_valid & core_rx_ready;
    wire [1:0] in_tlp_next = taken & ~core_rx_eop | ~taken & in_tlp;

    always @(posedge sys_clk) begin
        open <= (open | core_tx_valid) & ~(core_tx_valid & core_tx_ready & tx_eop);
        in_tlp <= in_tlp_next;
        drop <= {2{stop}} | drop & in_tlp_next;
        count <= state == RESET ? count + 8'd1 : 8'd0;
        case (state)
            RUN: if (flr) state <= STOP;
            STOP: if (open == 3'd0) state <= RESET;
            RESET: if (&count) state <= DONE;
            default: if (!flr) state <= RUN;
        endcase
        if (sys_rst) begin
            state <= RUN;
            open <= 3'd0;
            in_tlp <= 2'd0;
            drop <= 2'd0;
        end
    end
endmodule

`default_nettype wire
