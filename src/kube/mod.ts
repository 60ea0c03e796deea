/** The exports of the controller runtime. It knows Kubernetes, but none of the kinds of this program. */
export * from './apply.ts';
export * from './client.ts';
export * from './compare.ts';
export * from './controller.ts';
export * from './events.ts';
export * from './finalizer.ts';
export * from './leadership.ts';
export * from './lease.ts';
export * from './metrics.ts';
export * from './object.ts';
export * from './outcome.ts';
export * from './queue.ts';
export * from './reflector.ts';
export * from './service-account.ts';
export * from './status.ts';
export * from './store.ts';
export * from './update.ts';
