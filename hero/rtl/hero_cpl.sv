// Writes completions into the rings of host memory: a word each, with the phase of the pass. Input 0 is the receiver's
// (ring by its priority bit), 1 the transmitter's; an input's word is taken when the one before is in memory. A word that
// memory refuses is lost: its ring's state shows so until the next reset, and the next word takes its place.
`default_nettype none

module hero_cpl (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire [31:13] base,
    input  wire [  1:0] in_valid,
    output wire [  1:0] in_ready,
    input  wire [ 99:0] in_data,     // each {error, priority, octets 16, buffer 32}
    output reg  [  2:0] written,     // pulse: a completion of ring 0 RXLO, 1 RXHI, 2 TX is in memory
    output reg          lost,        // pulse: one is not
    output reg  [  2:0] broken,      // rings with a lost completion
    // DMA write client
    output wire         dma_req,
    output wire [ 31:0] dma_addr,
    output wire [  8:0] dma_beats,
    input  wire         dma_gnt,
    output wire         dma_wvalid,
    input  wire         dma_wready,
    output wire [ 63:0] dma_wdata,
    input  wire         dma_done,
    input  wire         dma_err
);
    localparam IDLE = 2'd0, ASK = 2'd1, DATA = 2'd2, WAIT = 2'd3;
    reg [1:0] state;
    reg tx_next;  // the transmitter's turn
    reg [1:0] ring;
    reg [49:0] word;
    reg [8:0] place;  // of `ring`: {passes, index}
    reg [8:0] place_rxlo, place_rxhi, place_tx;

    wire take_tx = in_valid[1] && (tx_next || !in_valid[0]);
    assign in_ready = state != IDLE ? 2'b00 : take_tx ? 2'b10 : 2'b01;
    wire rx_high = in_data[48];

    always @(posedge sys_clk) begin
        written <= 3'b000;
        lost <= 1'b0;
        case (state)
            IDLE: begin
                ring <= take_tx ? 2'd2 : {1'b0, rx_high};
                word <= take_tx ? in_data[99:50] : in_data[49:0];
                place <= take_tx ? place_tx : rx_high ? place_rxhi : place_rxlo;
                tx_next <= !take_tx;
                if (in_valid != 2'b00) state <= ASK;
            end
            ASK: if (dma_gnt) state <= DATA;
            DATA: if (dma_wready) state <= WAIT;
            WAIT:
            if (dma_done) begin
                written[ring] <= !dma_err;
                lost <= dma_err;
                if (dma_err) broken[ring] <= 1'b1;
                else
                    case (ring)
                        2'd0: place_rxlo <= place + 9'd1;
                        2'd1: place_rxhi <= place + 9'd1;
                        default: place_tx <= place + 9'd1;
                    endcase
                state <= IDLE;
            end
        endcase
        if (sys_rst) begin
            state <= IDLE;
            tx_next <= 1'b0;
            written <= 3'b000;
            lost <= 1'b0;
            broken <= 3'b000;
            place_rxlo <= 9'd0;
            place_rxhi <= 9'd0;
            place_tx <= 9'd0;
        end
    end

    assign dma_req = state == ASK;
    assign dma_addr = {base, ring, place[7:0], 3'd0};
    assign dma_beats = 9'd1;
    assign dma_wvalid = state == DATA;
    assign dma_wdata = {13'd0, !place[8], word};
endmodule

`default_nettype wire
