r"""A cluster on one machine: replicas on one Postgres and one Redis, and the faults that tests give them.

            faults                         faults
replica 1 --FaultProxy--> Postgres <--FaultProxy-- replica 2       local_cluster.py starts, kills, stops and cuts off
          --FaultProxy--> Redis    <--FaultProxy--                 fault_proxy.py   delay, reset, refuse, freeze
        \------------ veth --bridge-- veth ------------/           network.py       a network namespace for each replica

Nothing here imports pytest: `deploy/local-cluster` runs it too.
"""
