export * from './application.ts';
export * from './artifact.ts';
export * from './edge-node.ts';
export * from './knowledge.ts';
export * from './microservice.ts';
export * from './model.ts';
export * from './registry.ts';
export * from './runtime-class.ts';
