/** The agent routes of every replica, and the channel from replicas to the leader: what the rest may import. */
export * from './agents.ts';
export * from './dependencies.ts';
export * from './failure.ts';
export * from './node-key.ts';
