// A card's events as the three vectors of hero-device: received, sent, others. A line is up while an event of its vector is
// pending and the mask lets it through; each rise of it is to be a message.
//
// Where a message is due although the line is up, it is down for a cycle first: after a read of IRQ_MASKED, which told the
// events that it cleared but not those of the same cycle, and when the mask lets an event through that it held back.
`default_nettype none

module hero_vectors (
    input  wire       sys_clk,
    input  wire       core_rst,
    input  wire [7:0] pending,  // IRQ_UNMASKED
    input  wire [7:0] mask,     // IRQ_MASK
    input  wire       read,     // pulse: IRQ_MASKED is read
    output reg  [2:0] vectors
);
    localparam [7:0] RECEIVED = hero_pkg::IRQ_RXLO | hero_pkg::IRQ_RXHI | hero_pkg::IRQ_RXLO_EMPTY | hero_pkg::IRQ_RXHI_EMPTY;
    localparam [7:0] SENT = hero_pkg::IRQ_TX;
    localparam [7:0] OTHERS = hero_pkg::IRQ_FAULT | hero_pkg::IRQ_BUS | hero_pkg::IRQ_DROP;

    reg [7:0] old_mask;
    wire [7:0] now = pending & mask;
    wire [7:0] let_through = now & ~old_mask;
    wire [2:0] up = {(now & OTHERS) != 8'd0, (now & SENT) != 8'd0, (now & RECEIVED) != 8'd0};
    wire [2:0] again = {(let_through & OTHERS) != 8'd0, (let_through & SENT) != 8'd0, (let_through & RECEIVED) != 8'd0};

    always @(posedge sys_clk) begin
        old_mask <= mask;
        vectors <= read ? 3'd0 : up & ~again;
        if (core_rst) begin
            old_mask <= 8'd0;
            vectors <= 3'd0;
        end
    end
endmodule

`default_nettype wire
