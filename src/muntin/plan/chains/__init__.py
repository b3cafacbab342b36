"""Where the state of a join is cut into slices: the chains of wang2006, sections 5 and 6, one file each.

`edges` knows what any slice holds and costs; a chain chooses the slices. The first chain of `CHAINS` needs to know
nothing of the streams; `SET chain = 'auto'` takes another one where it is predicted to be clearly cheaper.
"""

from muntin.plan.chains.chain import Chain
from muntin.plan.chains.cpu_opt import CpuOpt
from muntin.plan.chains.edges import Edges
from muntin.plan.chains.mem_opt import MemOpt
from muntin.plan.registry import Registry

__all__ = ["CHAINS", "CPU_OPT", "MEM_OPT", "Chain", "Edges"]

MEM_OPT, CPU_OPT = MemOpt(), CpuOpt()
CHAINS: Registry[Chain] = Registry(MEM_OPT, CPU_OPT)
