"""Change streams: order, redelivery, key changes and unavailable values of events, whatever wrote them."""
