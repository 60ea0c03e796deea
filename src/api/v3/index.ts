export * from './application.ts';
export * from './edge-node.ts';
export * from './microservice.ts';
export * from './registry.ts';
export * from './runtime-class.ts';
