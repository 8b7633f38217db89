-- The relay writes a cancellation down of which only the store knows: whoever called the event off died in between.

GRANT INSERT ON cancellations TO encore_relay;
