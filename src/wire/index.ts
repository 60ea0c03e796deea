export * from './agent.ts';
export * from './artifacts.ts';
export * from './container.ts';
export * from './digest.ts';
export * from './node-token.ts';
export * from './sections.ts';
export * from './volume-mounts.ts';
