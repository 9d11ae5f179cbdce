"""Secure aggregation (Bonawitz et al. 2017): a server learns the sum of what clients send, and no client's own values.

    client                              server
    advertise  --public keys-->         collects them: the members
    share      --sealed shares-->       passes each on to whom it is for: the senders
    mask       --masked values-->       collects them: the survivors
    unmask     --shares of seeds-->     recover_sum: the sum of the survivors' values

Each pair of clients agrees on a mask that one adds and the other subtracts, and each client adds a mask of its own. A
client that drops out is recovered from the shares that others hold: of its key, if its values did not come, and of its own
mask, if they did; never both.

This is the protocol for honest-but-curious servers: the server passes on the keys, and a server that passes on keys of its
own in place of the clients' is not noticed. Only numpy and `cryptography` are needed.
"""
