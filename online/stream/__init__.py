"""The log of a model as its learner reads it, in order.

SqlStream       reads the event table of the store, which is the truth
RedisStream     holds the same entries under the same offsets; `relay` copies them there
VerifiedStream  reads the copy, and the store where the copy does not verify
"""
