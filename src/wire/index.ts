export * from './agent.ts';
export * from './container.ts';
export * from './digest.ts';
export * from './node-token.ts';
export * from './sections.ts';
