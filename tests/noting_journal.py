"""A journal of one chain that records everything it is told."""

from dbdl.sampler.run import ChainJournal, Snapshot


class NotingJournal(ChainJournal):
    """Notes records and, every so many sweeps, snapshots; the chain may be resumed from one."""

    def __init__(self, resumed=None, every=1):
        self.resumed, self.every = resumed, every
        self.told, self.snapshots = [], {}

    def tell(self, record, now=None):
        self.told.append(record)
        return False

    def is_due(self, sweep):
        return sweep % self.every == 0

    def keep(self, chain, backend):
        self.snapshots[chain.state.sweep] = Snapshot.take(chain, backend)
