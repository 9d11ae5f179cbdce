"""A cluster that is broken on purpose: killed, stopped, cut off, without its store and without its stream.

The numbers are parameters of the environment, so that a short run exists:

    ONLINE_CHAOS_KILLS=20 ONLINE_CHAOS_EVENTS=3000 ONLINE_CHAOS_SPLITS=1 ONLINE_CHAOS_SPLIT_S=10 \
        pytest --all tests/long/cluster/test_chaos.py -s
"""
