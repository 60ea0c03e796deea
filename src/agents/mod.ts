/** The agent routes of every replica, and the channel from replicas to the leader: what the rest may import. */
export * from './ports.ts';
export * from './store-indexes.ts';
