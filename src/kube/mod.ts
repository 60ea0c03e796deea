/** The controller runtime: what the rest of the program may import. It knows Kubernetes and no kind of ours. */
export * from './apply.ts';
export * from './backoff.ts';
export * from './client.ts';
export * from './clock.ts';
export * from './compare.ts';
export * from './controller.ts';
export * from './dependencies.ts';
export * from './events.ts';
export * from './finalizer.ts';
export * from './lease.ts';
export * from './object.ts';
export * from './outcome.ts';
export * from './queue.ts';
export * from './reflector.ts';
export * from './service-account.ts';
export * from './status.ts';
export * from './store.ts';
